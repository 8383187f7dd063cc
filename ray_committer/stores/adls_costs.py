"""Settings of an Azure account that make a commit dearer; with a namespace it has no versioning."""

from __future__ import annotations

import re

from ray_committer.stores.adls_http import AdlsHttp, error_code, error_of

_POLICY = re.compile(rb"<DeleteRetentionPolicy>(.*?)</DeleteRetentionPolicy>", re.DOTALL)
_DAYS = re.compile(rb"<Days>(\d+)</Days>")


def cost_warnings(http: AdlsHttp) -> list[str]:
    """What `WarnsOfCosts` tells of the account; ``PermissionError`` if its settings may not be read."""
    query = {"restype": "service", "comp": "properties"}
    path = http.connection.account or http.container
    answer = http.url("GET", f"{http.connection.blob}/", query, path=path)
    if answer.status != 200:
        raise error_of(answer.status, error_code(answer), path)
    policy = _POLICY.search(answer.body)
    if policy is None or b"<Enabled>true</Enabled>" not in policy[1]:
        return []
    days = _DAYS.search(policy[1])
    kept = f"for {int(days[1])} days" if days else "for a time"
    return [
        f"soft delete keeps {kept}, and bills, what a commit deletes (manifests, replaced data; not "
        f"what it renames): switch it off if that is much"
    ]
