"""What a run id becomes by commits, undos and undos of undos; and the list that a checkpoint keeps."""

from __future__ import annotations

from hashlib import sha256

import pytest

from ray_committer.errors import SettingsError, TableLogError
from ray_committer.options import CommitOptions
from ray_committer.protocol.file_list import FileSet
from ray_committer.protocol.table_entry import TableClaim, WriteMode
from ray_committer.protocol.table_runs import (
    MOST_BYTES,
    CommittedRun,
    digest_of_work,
    pack_runs,
    runs_after,
    unpack_runs,
)
from ray_committer.protocol.table_state import ClaimCommitted


def committed(
    version: int,
    run_id: str | None = "r",
    *,
    undoes: int | None = None,
    partitions: tuple[str, ...] = (),
) -> ClaimCommitted:
    claim = TableClaim(
        job_id=f"job_{version}",
        job_attempt=0,
        nonce="n",
        mode=WriteMode.APPEND if undoes is None else WriteMode.REPLACE,
        base=1,
        partitions=list(partitions or ("day=1",)),
        run_id=run_id,
        undoes=undoes,
        at_milliseconds=1,
    )
    return ClaimCommitted(version, version - 1, claim, FileSet())


@pytest.mark.parametrize(
    ("commits", "version", "undone"),
    [
        ([committed(2)], 2, 0),
        ([committed(2), committed(4, None), committed(6, "other")], 2, 0),
        ([committed(2), committed(4, undoes=2)], 2, 4),
        ([committed(2), committed(4, undoes=2), committed(6, undoes=4)], 6, 0),
        ([committed(2), committed(4, undoes=2), committed(6, undoes=4), committed(8, undoes=6)], 6, 8),
        ([committed(2), committed(4, undoes=2), committed(6)], 6, 0),
        ([committed(2), committed(4, undoes=2), committed(6), committed(8, undoes=4)], 6, 0),
        ([committed(2), committed(4, undoes=3)], 2, 0),
    ],
    ids=["once", "beside others", "undone", "back", "undone again", "again", "not back", "another"],
)
def test_an_undo_frees_a_run_id_and_its_undo_takes_it_again(
    commits: list[ClaimCommitted], version: int, undone: int
):
    found = runs_after({}, commits)["r"]
    assert (found.version, found.undone) == (version, undone)
    assert found.work == digest_of_work(commits[0].claim)
    assert runs_after(runs_after({}, commits[:1]), commits[1:])["r"] == found


def test_work_is_a_mode_and_partitions():
    works = [committed(2), committed(2, partitions=("day=2",)), committed(2, undoes=1)]
    assert len({digest_of_work(one.claim) for one in works}) == 3


def test_a_list_of_run_ids_round_trips_and_another_file_is_refused():
    runs = {"r": CommittedRun("r", 2, 1, "w"), "é": CommittedRun("é", 4, 3, "w", 6)}
    data = pack_runs(runs)
    digest = sha256(data).hexdigest()
    assert unpack_runs(data, digest, "/p") == runs
    for wrong in (b"", data[:-1], b"{}"):
        with pytest.raises(TableLogError, match=r"^/p: is not the list of run ids"):
            unpack_runs(wrong, digest, "/p")
    with pytest.raises(TableLogError):
        unpack_runs(b"{}", sha256(b"{}").hexdigest(), "/p")


@pytest.mark.parametrize(
    "run_id", ["", " a", "a ", "a\nb", "\x1b[31m", "\udcff", "x" * (MOST_BYTES + 1)]
)
def test_a_text_that_is_no_run_id_is_refused(run_id: str):
    with pytest.raises(SettingsError, match="run_id="):
        CommitOptions(run_id=run_id)


@pytest.mark.parametrize(
    "run_id", ["orders", "scheduled__2026-01-31T00:00:00+00:00", "ä/b c", "x" * 500]
)
def test_any_other_text_is_one(run_id: str):
    assert CommitOptions(run_id=run_id).run_id == run_id
    conf = {"spark.ray_committer.run_id": run_id}
    assert CommitOptions.from_spark_conf(conf).run_id == run_id


def test_none_unsets_the_run_id_of_a_session():
    conf = {"spark.ray_committer.run_id": "none"}
    given = CommitOptions(run_id="r")
    assert CommitOptions.from_spark_conf(conf, defaults=given).run_id is None
