"""The public calls beside a job whose process has died: what they end, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CancelToken, CommitOptions, ConflictMode, Outcome
from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    CommitStateUnknownError,
)
from ray_committer.job_files.others import other_jobs
from ray_committer.jobs.end_job import ending
from ray_committer.options import Unfinished
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.other_jobs.end_others import End, end_jobs
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.table_jobs.table import init_table
from ray_committer.testing import StoreCall
from tests.doubles import phase_of as phase_of_job
from tests.opening import dying

FIRST, SECOND = "first", "second"
OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
AT_ONCE = CommitOptions(conflict_wait_seconds=0.0)
FAR_FUTURE = 2**53

Die = Callable[..., None]


@pytest.fixture
def die(dest: Path) -> Die:
    """Write a job and let its commit die at a request, by default before the second file is moved."""

    def die(
        options: CommitOptions = CommitOptions(),  # noqa: B008 - frozen
        *,
        job_id: str = FIRST,
        at: Callable[[StoreCall], bool] = lambda call: call.paths[-1].endswith("/b"),
    ) -> None:
        write(dest, job_id, {"a": "1", "b": "2"}, options)
        with dying(lambda call: call.operation in ("rename", "advance") and at(call)):
            ray_committer.commit_job(str(dest), job_id, executor="inline", options=options)

    return die


def phase_of(store: StoreOperations, dest: Path, job_id: str) -> Phase | None:
    return phase_of_job(store, new_job_attempt(str(dest), job_id, 0))


def is_move_of(name: str) -> Callable[[StoreCall], bool]:
    return lambda call: call.operation == "rename" and call.paths[-1].endswith(f"/{name}")


def write(dest: Path, job_id: str, files: dict[str, str], options: CommitOptions) -> None:
    ray_committer.setup_job(str(dest), job_id, options=options)
    with ray_committer.task_attempt(str(dest), job_id, 0) as attempt:
        for name, text in files.items():
            Path(attempt.path(name)).write_text(text)


def test_an_overwrite_that_is_run_again_heals_at_its_set_up_and_warns(
    die: Die, dest: Path, tree, store: StoreOperations
):
    dest.mkdir()
    (dest / "old").write_text("old")
    die(OVERWRITE)
    assert phase_of(store, dest, FIRST) is Phase.RECORDED
    assert tree() == {"old": "old", "a": "1"}
    warnings: list[str] = []
    ray_committer.setup_job(str(dest), SECOND, options=OVERWRITE, on_warning=warnings.append)
    assert tree() == {"old": "old"}
    directory = dest / "_temporary" / FIRST / "00"
    assert warnings == [
        f"{directory}: job first was given up before this job, because its commit had begun and no "
        f"process was at work on it"
    ]
    assert not directory.exists()


def test_what_was_ended_is_told_even_if_the_set_up_is_refused_after_that(die: Die, dest: Path, tree):
    die()
    options = CommitOptions(mode=ConflictMode.ERROR, unfinished="finish")
    warnings: list[str] = []
    with pytest.raises(CommitConflictError, match="holds data already") as caught:
        ray_committer.setup_job(str(dest), SECOND, options=options, on_warning=warnings.append)
    assert caught.value.advice == "this job has changed nothing"
    assert tree() == {"a": "1", "b": "2"}
    assert [f"job {FIRST} was finished before this job" in text for text in warnings] == [True]


@pytest.mark.parametrize("unfinished", ["finish", "supersede"])
def test_a_job_that_died_is_ended_on_the_executor_of_the_commit(
    die: Die, dest: Path, tree, write_job, unfinished: Unfinished
):
    write_job({0: {"c": "3"}}, job_id=SECOND)
    die()
    options = CommitOptions(unfinished=unfinished)
    report = ray_committer.commit_job(str(dest), SECOND, executor="threads", options=options)
    assert tree() == {"c": "3"} | ({"a": "1", "b": "2"} if unfinished == "finish" else {})
    was = "finished" if unfinished == "finish" else "given up"
    assert any(f"job first was {was} before this job" in text for text in report.notices)


@pytest.mark.parametrize(
    ("dies_at", "options", "left"),
    [("/b", CommitOptions(finish_others=True), ["a", "b"]), ("recorded", AT_ONCE, [])],
)
def test_a_job_made_from_the_log_of_a_table_ends_a_job_that_died(
    die: Die, dest: Path, dies_at: str, options: CommitOptions, left: list[str]
):
    init_table(str(dest))
    write(dest, "old", {"day=1/old": "0"}, CommitOptions())
    ray_committer.commit_job(str(dest), "old", executor="inline")
    die(at=lambda call: dies_at in call.paths[-1])
    ray_committer.drop_partition(str(dest), ["day=1"], executor="inline", options=options)
    assert [file.path for file in ray_committer.snapshot(str(dest)).files()] == left
    assert ray_committer.list_jobs(str(dest)) == []


def test_a_job_is_recorded_for_later_only_after_the_one_that_died(die: Die, dest: Path, write_job):
    write_job({0: {"c": "3"}}, job_id=SECOND)
    die()
    with pytest.raises(CommitConflictError, match="job first, recorded"):
        ray_committer.record_job(str(dest), SECOND)
    ray_committer.record_job(str(dest), SECOND, options=CommitOptions(unfinished="supersede"))
    assert [job.job_id for job in ray_committer.list_jobs(str(dest))] == [SECOND]


def test_deferred_appends_stay_beside_each_other_and_an_overwrite_is_refused(
    dest: Path, tree, write_job
):
    for job_id, name in ((FIRST, "a"), (SECOND, "b")):
        write_job({0: {name: "1"}}, job_id=job_id)
        ray_committer.record_job(str(dest), job_id)
    with pytest.raises(CommitConflictError, match=r"ray-committer abort .* --undo"):
        ray_committer.setup_job(str(dest), "third", options=OVERWRITE)
    write_job({0: {"c": "1"}}, job_id="third")
    ray_committer.commit_job(str(dest), "third")
    for job_id in (FIRST, SECOND):
        ray_committer.commit_job(str(dest), job_id)
    assert tree() == {"a": "1", "b": "1", "c": "1"}


def test_an_end_that_fails_leaves_what_its_command_would_have_left_and_names_it(
    die: Die, dest: Path, tree, store: StoreOperations
):
    die(OVERWRITE)
    (pack,) = (dest / "_temporary" / FIRST / "00" / "packs").iterdir()
    whole = pack.read_bytes()
    pack.write_bytes(whole[:40])
    with pytest.raises(CommitStateUnknownError, match="job first was to be given up before") as caught:
        ray_committer.setup_job(str(dest), SECOND, options=OVERWRITE)
    assert "--job-id first --undo" in caught.value.advice
    assert phase_of(store, dest, FIRST) is Phase.RECORDED
    assert tree() == {"a": "1"}
    assert phase_of(store, dest, SECOND) is None
    pack.write_bytes(whole)
    ray_committer.setup_job(str(dest), SECOND, options=OVERWRITE)
    assert tree() == {}


def test_an_undo_that_died_is_finished_before_any_job(die: Die, dest: Path, tree, write_job):
    die()
    with dying(lambda call: call.operation == "set_aside" and call.paths[0].endswith("/a")):
        ray_committer.abort_job(str(dest), FIRST, undo=True)
    assert tree() == {"a": "1"}
    write_job({0: {"c": "3"}}, job_id=SECOND)
    assert tree() == {}


@pytest.mark.parametrize("how", list(End))
def test_a_job_whose_id_was_set_up_again_is_left_alone(die: Die, dest: Path, tree, store, how: End):
    die()
    (other,) = other_jobs(store, str(dest), FAR_FUTURE)
    ray_committer.abort_job(str(dest), FIRST, undo=True)
    write(dest, FIRST, {"z": "9"}, CommitOptions())
    end = ending(StoreSpec("file"), CommitOptions(), None, executor="inline")
    assert list(end_jobs(store, [(other, how)], end)) == []
    assert phase_of(store, dest, FIRST) is Phase.OPEN
    assert tree() == {}


def test_a_record_that_names_other_places_is_not_trusted(die: Die, dest: Path, tmp_path: Path, tree):
    elsewhere = CommitOptions(allowed_roots=(str(tmp_path / "elsewhere"),))
    die(elsewhere)
    supersede = CommitOptions(unfinished="supersede")
    with pytest.raises(CommitStateUnknownError, match="lets the job change"):
        ray_committer.setup_job(str(dest), SECOND, options=supersede)
    allowed = supersede.changed(allowed_roots=elsewhere.allowed_roots)
    ray_committer.setup_job(str(dest), SECOND, options=allowed)
    assert tree() == {}


def test_a_commit_that_is_cancelled_ends_no_other_job(die: Die, dest: Path, store, write_job):
    write_job({0: {"c": "3"}}, job_id=SECOND)
    die()
    token = CancelToken()
    token.cancel()
    with pytest.raises(CommitCancelledError):
        ray_committer.commit_job(str(dest), SECOND, options=OVERWRITE, cancel=token)
    assert phase_of(store, dest, FIRST) is Phase.RECORDED


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (OVERWRITE, "it would be given up first"),
        (OVERWRITE.changed(unfinished="finish"), "it would be finished first"),
        (CommitOptions(unfinished="supersede"), "it would be given up first"),
        (CommitOptions(), "this job would be refused: finish it with: ray-committer commit"),
        (OVERWRITE.changed(unfinished="refuse"), "this job would be refused: finish it with: "),
        (CommitOptions(mode=ConflictMode.ERROR, unfinished="supersede"), None),
    ],
)
def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    die: Die, dest: Path, tree, store, write_job, options: CommitOptions, said: str | None
):
    write_job({0: {"c": "3"}}, job_id=SECOND)
    die()
    if said is None:
        with pytest.raises(CommitConflictError, match="holds data already"):
            ray_committer.plan_job(str(dest), SECOND, options=options)
    else:
        (text,) = ray_committer.plan_job(str(dest), SECOND, options=options).unfinished
        assert text.startswith(f"{dest}/_temporary/first/00: the commit has begun but not ended")
        assert said in text
    assert (tree(), phase_of(store, dest, FIRST)) == ({"a": "1"}, Phase.RECORDED)


def test_a_dry_run_names_only_jobs_that_are_in_the_way_of_the_commit(dest: Path, write_job):
    """As the commit of an append, which goes on beside a job that stopped in other partitions."""
    write_job({0: {"p=2/c": "3"}}, job_id=SECOND)
    write(dest, FIRST, {"p=1/a": "1", "p=1/b": "2"}, CommitOptions())
    with dying(is_move_of("b")):
        ray_committer.commit_job(str(dest), FIRST, executor="inline")
    assert ray_committer.plan_job(str(dest), SECOND).unfinished == ()
    assert ray_committer.commit_job(str(dest), SECOND, executor="inline").outcome is Outcome.COMMITTED


def test_a_dry_run_names_a_job_above(dest: Path, write_job):
    write(dest, FIRST, {"p=1/a": "1", "p=1/b": "2"}, CommitOptions())
    with dying(is_move_of("b")):
        ray_committer.commit_job(str(dest), FIRST, executor="inline")
    below = dest / "p=1"
    write(below, SECOND, {"c": "3"}, OVERWRITE)
    (text,) = ray_committer.plan_job(str(below), SECOND, options=OVERWRITE).unfinished
    assert text.startswith(f"{dest}/_temporary/first/00: ")
    assert "this job would be refused" in text


@pytest.mark.parametrize("unfinished", [None, "supersede", "finish"])
def test_a_job_that_was_set_up_above_is_not_ended(dest: Path, tree, unfinished: Unfinished | None):
    """Whoever can write there could let its record name any file of the directories beside this job."""
    options = OVERWRITE.changed(replaced_roots=(str(dest / "p=1"),))
    for name in ("p=1/old", "p=2/old"):
        (dest / name).parent.mkdir(parents=True)
        (dest / name).write_text("old")
    write(dest, FIRST, {"p=1/a": "1"}, options)
    with dying(is_move_of("a")):
        ray_committer.commit_job(str(dest), FIRST, executor="inline", options=options)
    below, again = dest / "p=1", OVERWRITE.changed(unfinished=unfinished, mark_success=False)
    write(below, SECOND, {"c": "3"}, again)
    with pytest.raises(CommitConflictError, match=f"ray-committer commit {dest} --job-id first"):
        ray_committer.commit_job(str(below), SECOND, executor="inline", options=again)
    assert tree() == {"p=1/old": "old", "p=2/old": "old"}
    ray_committer.abort_job(str(dest), FIRST, undo=True)
    ray_committer.commit_job(str(below), SECOND, executor="inline", options=again)
    assert tree() == {"p=1/c": "3", "p=2/old": "old"}
