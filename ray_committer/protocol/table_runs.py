"""The run ids of a table: which work is committed, so that the same work is not committed again.

A claim names the run id of its work. Its commit makes the run committed. The undo of that commit names
the version that it takes back, so it frees the id, and the undo of that undo makes the run committed
again. A checkpoint keeps all run ids in one list. This module makes no request to a store.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from hashlib import sha256

import msgspec
from msgspec import structs

from ray_committer.errors import SettingsError, TableLogError, mark
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.protocol.table_state import ClaimCommitted

MOST_BYTES = 500
"""The longest run id, in UTF-8."""


class CommittedRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The work of a run id that was committed at `version`: the version of its `claim`, and the digest
    of its mode and its partitions; `undone` is the version that has taken it back, 0 if none has."""

    run_id: str
    version: int
    claim: int
    work: str
    undone: int = 0


Runs = Mapping[str, CommittedRun]


def check_run_id(run_id: str) -> None:
    """`SettingsError` for a text that cannot be a run id."""
    is_text = run_id.encode(errors="replace").decode() == run_id and run_id.isprintable()
    if not (is_text and 0 < len(run_id.encode()) <= MOST_BYTES and run_id.strip() == run_id):
        raise SettingsError(
            f"run_id={run_id!r}: must be a printable text of 1 to {MOST_BYTES} bytes without blanks "
            f"around it",
            "nothing was done: name the work that is committed once, such as orders-2026-01-31",
        )


def digest_of_work(claim: TableClaim) -> str:
    """A digest of what a claim writes: equal for the same mode and the same partitions."""
    identity = msgspec.json.encode((claim.mode, claim.partitions))
    return sha256(identity).hexdigest()[:32]


def run_after(run: CommittedRun | None, commit: ClaimCommitted) -> CommittedRun | None:
    """What a run id has become by a commit of a claim that names it."""
    claim = commit.claim
    if claim.run_id is None:
        return run
    if claim.undoes is None:
        return CommittedRun(claim.run_id, commit.version, commit.claim_version, digest_of_work(claim))
    # The undo of a run that no checkpoint or entry knows any more: there is nothing to free.
    if run is None:
        return None
    if run.undone:
        # The undo of that undo. Any other version that it names is about an older commit of the same id.
        is_back = run.undone == claim.undoes
        return structs.replace(run, version=commit.version, undone=0) if is_back else run
    return structs.replace(run, undone=commit.version) if run.version == claim.undoes else run


def runs_after(runs: Runs, commits: Iterable[ClaimCommitted]) -> dict[str, CommittedRun]:
    """The run ids of a table after some commits, in the order of their versions."""
    after = dict(runs)
    for commit in commits:
        run_id = commit.claim.run_id
        if run_id is not None and (run := run_after(after.get(run_id), commit)) is not None:
            after[run_id] = run
    return after


def pack_runs(runs: Runs) -> bytes:
    """The list of the run ids for a checkpoint; equal run ids give equal data."""
    lines = msgspec.json.Encoder().encode_lines([runs[name] for name in sorted(runs)])
    return zlib.compress(lines)


def unpack_runs(data: bytes, digest: str, path: str) -> dict[str, CommittedRun]:
    """Parse such a list; `TableLogError` if it is not the one with this `digest`."""
    try:
        if sha256(data).hexdigest() != digest:
            raise ValueError("it has another digest")
        return {run.run_id: run for run in _DECODER.decode_lines(zlib.decompress(data))}
    except (zlib.error, msgspec.MsgspecError, ValueError) as e:
        raise TableLogError(
            f"{mark(path)}: is not the list of run ids that a checkpoint names: {e}"
        ) from e


_DECODER = msgspec.json.Decoder(CommittedRun)
