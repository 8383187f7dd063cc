"""``_SUCCESS`` and the summary report: JSON in the shape of Hadoop's ``ManifestSuccessData``.

Both are notices for people and other tools; a commit never uses them as proof. The list of file names
is limited to 100, as in Hadoop. Source: Hadoop ``ManifestSuccessData``.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from ray_committer.errors import ManifestError, mark
from ray_committer.protocol.iostatistics import IOStatistics

SUCCESS_NAME = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"
COMMITTER_NAME = "ray_committer"
MAX_FILENAMES = 100
ATTEMPT = "attempt"
"""The key of the job attempt's number in the diagnostics of files that this committer writes."""

DESTINATION = "destination"
"""The key of the destination in summary reports, as a URL or a local path."""

COMMITTED = "committed"
"""The key, after a commit that failed, of whether the job is committed: true, false, or unknown."""

RUN_ID = "run_id"
"""The key of the job's run id, if it has one."""

TABLE_VERSION = "table_version"
"""The key of the version of the table with this job's files, if the destination is one with a log."""


class SuccessData(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The content of ``_SUCCESS``, or, with ``success=False``, of the report of a failed commit."""

    name: str
    timestamp: int
    success: bool = True
    date: str | None = None
    hostname: str | None = None
    committer: str | None = None
    description: str | None = None
    job_id: str | None = None
    job_id_source: str | None = None
    metrics: dict[str, Any] | None = None
    diagnostics: dict[str, str] | None = None
    filenames: list[str] | None = None
    iostatistics: IOStatistics | None = None
    state: str | None = None
    stage: str | None = None


_SAID = {"true": True, "false": False}


def is_committed(data: SuccessData) -> bool | None:
    """Whether the job is committed; None if its commit, which failed, did not know that."""
    return data.success or _SAID.get((data.diagnostics or {}).get(COMMITTED, "false"))


def new_success_data(
    *,
    job_id: str,
    now_milliseconds: int,
    hostname: str,
    success: bool,
    stage: str,
    filenames: Sequence[str],
    diagnostics: dict[str, str],
    iostatistics: IOStatistics,
) -> SuccessData:
    """Build the marker or report; `filenames` are destination URIs, and the first 100 are kept."""
    moment = datetime.datetime.fromtimestamp(now_milliseconds / 1000, datetime.UTC)
    return SuccessData(
        name=SUCCESS_NAME,
        timestamp=now_milliseconds,
        success=success,
        date=moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ[Etc/UTC]"),
        hostname=hostname,
        committer=COMMITTER_NAME,
        job_id=job_id,
        job_id_source="JobID",
        metrics={},
        diagnostics={**diagnostics, "stage": stage},
        filenames=list(filenames[:MAX_FILENAMES]),
        iostatistics=iostatistics,
    )


def encode_success(data: SuccessData) -> bytes:
    """Return the JSON; like Hadoop, always write `success`, because Hadoop's reader defaults to True."""
    fields = {key: value for key, value in msgspec.to_builtins(data).items() if value is not None}
    fields["success"] = data.success
    return msgspec.json.format(msgspec.json.encode(fields), indent=2)


def decode_success(data: bytes, path: str) -> SuccessData | None:
    """Parse ``_SUCCESS``; None for the empty file of Hadoop's classic committer."""
    if not data.strip():
        return None
    try:
        success = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise ManifestError(f"{mark(path)}: is not a job success marker: {e}") from e
    if success.name != SUCCESS_NAME:
        raise ManifestError(f"{mark(path)}: is not a job success marker but {success.name!r}")
    return success


_DECODER = msgspec.json.Decoder(SuccessData, strict=False)
