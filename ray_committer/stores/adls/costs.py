"""Settings of an Azure account that make a commit more expensive.

An account with a hierarchical namespace has no versioning.
"""

from __future__ import annotations

import re

from ray_committer.stores.adls.http import AdlsHttp, error_code, error_of

_POLICY = re.compile(rb"<DeleteRetentionPolicy>(.*?)</DeleteRetentionPolicy>", re.DOTALL)
_DAYS = re.compile(rb"<Days>(\d+)</Days>")


def cost_warnings(http: AdlsHttp) -> list[str]:
    """Return the warnings of `WarnsOfCosts`; ``PermissionError`` if the settings are not readable."""
    query = {"restype": "service", "comp": "properties"}
    answer = http.url("GET", f"{http.connection.blob}/", query, path="/")
    if answer.status != 200:
        raise error_of(answer.status, error_code(answer), "/")
    policy = _POLICY.search(answer.body)
    if policy is None or b"<Enabled>true</Enabled>" not in policy[1]:
        return []
    days = _DAYS.search(policy[1])
    kept = f"for {int(days[1])} days" if days else "for a time"
    return [
        f"soft delete keeps and bills {kept} what a commit deletes (manifests and replaced data, not "
        f"renamed files): switch it off if that is much data"
    ]
