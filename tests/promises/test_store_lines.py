"""What the doctor finds: nothing wrong with honest stores, and each lie of a store in its own line."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import StoreRefusedError, StoreUnavailableError
from ray_committer.promises import examine as doctor
from ray_committer.promises import uploads
from ray_committer.promises.all import PROMISES
from ray_committer.promises.examine import examine
from ray_committer.promises.lines import Diagnosis, Line, Verdict
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore
from ray_committer.testing.faults import failure
from ray_committer.testing.harness import all_files, put_file
from tests.promises.lies.all import LIES
from tests.promises.lies.files import ListsFilesStale
from tests.promises.lies.lie import Lie
from tests.promises.lies.renames import CopiesOnRename, IgnoresVersions, MakesParents, ReplacesOnRename
from tests.promises.lies.states import ChangesAnyState

DEST = "/bucket/table"
_NAMES = {one.name for one in PROMISES} - {one.name for one in uploads.PROMISES}
STORE_LINES = _NAMES | {"store", "write", "latency", "clean-up", "costs"}


def memory(**kind: Any) -> MemoryStore:
    store = MemoryStore(**kind)
    put_file(store, f"{DEST}/p=1/a", b"is there")
    return store


def diagnose(store: StoreOperations) -> Diagnosis:
    return examine(store, DEST, "threads", CommitOptions())


def by_verdict(diagnosis: Diagnosis, verdict: Verdict) -> set[str]:
    return {line.name for line in diagnosis.lines if line.verdict is verdict} & STORE_LINES


def line(diagnosis: Diagnosis, name: str) -> Line:
    (found,) = [one for one in diagnosis.lines if one.name == name]
    return found


@pytest.mark.parametrize(
    "operation", ["delete_file", "delete_directory", "remove_empty_directory", "rename"]
)
def test_a_lost_answer_is_no_broken_promise(operation: str):
    """A deletion that is repeated finds nothing, and a rename that is repeated no source."""
    left = [1]

    def lose(call: StoreCall) -> None:
        if call.operation == operation and "/doctor-" in call.paths[0] and left:
            left.pop()
            raise StoreUnavailableError(call.paths[0], "no answer")

    diagnosis = diagnose(WrappedStore(memory(), after=lose))
    assert not left
    assert by_verdict(diagnosis, Verdict.FAILED) == set()


@pytest.mark.parametrize("real", [True, False], ids=["directories", "flat"])
@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION, Identity.MODIFICATION_TIME])
def test_an_honest_store_is_all_ok_and_stays_as_it_was(identity: Identity, real: bool):
    store = memory(identity=identity, real_directories=real)
    before, directories = store.files(), set(store._directories)
    diagnosis = diagnose(store)
    assert by_verdict(diagnosis, Verdict.OK) == STORE_LINES
    assert not diagnosis.failed
    assert store.files() == before
    assert store._directories == directories


@pytest.mark.parametrize("identity", [Identity.FILE_ID, Identity.SIZE_ONLY])
def test_a_store_that_proves_by_size_alone_is_warned_of(identity: Identity):
    diagnosis = diagnose(memory(identity=identity))
    assert by_verdict(diagnosis, Verdict.WARNING) == {"rename keeps identity"}
    assert not diagnosis.failed


def test_what_a_store_does_not_promise_is_a_note_if_its_user_must_know_it():
    store = memory()
    store.capabilities = replace(store.capabilities, rename_makes_parents=True)
    found = line(diagnose(store), "rename makes no parents")
    assert found.verdict is Verdict.NOTE
    assert "a rename creates the directories that it needs" in found.measured
    assert found.advice.startswith("do nothing: ")


def test_local_files_are_all_ok_and_nothing_is_left(tmp_path: Path):
    diagnosis = ray_committer.doctor(str(tmp_path / "new" / "table"))
    assert by_verdict(diagnosis, Verdict.OK) == STORE_LINES
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_not_touched(tmp_path: Path, write_job, dest: Path):
    write_job({0: {"p=1/a": "x"}})
    (dest / "old").write_text("old")
    before = {path: path.stat().st_mtime_ns for path in dest.rglob("*") if path.is_file()}
    assert not ray_committer.doctor(str(dest)).failed
    assert {path: path.stat().st_mtime_ns for path in dest.rglob("*") if path.is_file()} == before
    ray_committer.commit_job(str(dest))


def test_an_empty_temporary_directory_that_was_there_stays(tmp_path: Path):
    (tmp_path / "_temporary").mkdir()
    assert not ray_committer.doctor(str(tmp_path)).failed
    assert [path.name for path in tmp_path.iterdir()] == ["_temporary"]


def test_nothing_outside_the_scratch_directory_is_written_or_deleted():
    calls: list[StoreCall] = []
    diagnose(WrappedStore(memory(identity=Identity.ETAG), before=calls.append))
    looks = ("get_status", "list_status", "list_files", "read")
    ends = {path for call in calls if call.operation not in looks for path in call.paths}
    changed = {path for path in ends if path.startswith("/")}  # a state is told by its name alone
    outside = {path for path in changed if not path.startswith(f"{DEST}/_temporary/doctor-")}
    assert outside == {f"{DEST}/_temporary"}  # was made for it, and is removed if empty
    assert len(calls) < 330


def test_each_promise_has_its_row_on_the_page():
    rows = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text().splitlines()
    names = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    first = names.index("rename")
    assert names[first : first + len(PROMISES)] == [promise.name for promise in PROMISES]


class TearsWrites(MemoryStore):
    def write(self, path: str, data: bytes) -> None:
        super().write(path, data[:3])


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_each_lie_turns_the_lines_of_its_promises_red(lie: Lie):
    store = lie.store()
    put_file(store, f"{DEST}/p=1/a", b"is there")
    diagnosis = diagnose(store)
    red = lie.promises | lie.other_lines
    assert by_verdict(diagnosis, Verdict.FAILED) == red
    assert diagnosis.failed
    assert all(one.advice for one in diagnosis.lines if one.name in red)
    assert store.files(f"{DEST}/p=1")


@pytest.mark.parametrize(
    ("kind", "name", "measured", "advice"),
    [
        (
            ReplacesOnRename,
            "rename never replaces",
            "a rename onto an existing file was not refused",
            "do not commit to this store: a commit could lose or replace files",
        ),
        (
            MakesParents,
            "rename makes no parents",
            "a rename into a missing directory was not refused, so a late writer can create directories",
            "do not commit to this store: a commit could lose or replace files",
        ),
        (
            CopiesOnRename,
            "rename keeps identity",
            "a rename changed the etag, which must prove a rename after a crash",
            "do not commit to this store: a commit could lose or replace files",
        ),
        (
            IgnoresVersions,
            "rename is bound to a version",
            "a rename moved another version than the requested one",
            "do not commit to this store: a commit could lose or replace files",
        ),
        (
            ChangesAnyState,
            "a state changes once",
            "a state that was changed already was changed again",
            "do not commit to this store: a job could be both committed and aborted",
        ),
        (
            ListsFilesStale,
            "listings",
            "a listing did not show a rename that was acknowledged",
            "do not commit to this store: task manifests could be missed",
        ),
    ],
)
def test_a_broken_promise_is_told_with_what_to_do(kind, name: str, measured: str, advice: str):
    store = kind(identity=Identity.ETAG)
    store.mkdirs(DEST)
    assert line(diagnose(store), name) == Line(name, Verdict.FAILED, measured, advice)


def test_a_store_that_tears_what_is_written_is_not_examined_further():
    store = TearsWrites()
    store.mkdirs(DEST)
    diagnosis = diagnose(store)
    assert by_verdict(diagnosis, Verdict.FAILED) == {"write"}
    assert "rename" not in {one.name for one in diagnosis.lines}
    assert all_files(store, DEST) == {}


def forbid(*operations: str) -> Callable[[StoreCall], None]:
    def hook(call: StoreCall) -> None:
        if call.operation in operations:
            raise PermissionError(errno.EACCES, "forbidden", call.paths[0])

    return hook


@pytest.mark.parametrize(
    ("operations", "red"),
    [
        (("write",), {"write"}),
        (("mkdirs",), {"write"}),
        (("read",), {"write"}),
        (
            ("rename",),
            {
                "rename",
                "rename never replaces",
                "rename makes no parents",
                "rename keeps identity",
                "rename is bound to a version",
                "rename enters no directory",
                "one of many renames wins",
                "listings",
                "latency",
            },
        ),
        (("replace",), {"replace", "replace is bound to a version"}),
        (("move_directory",), {"a state changes once", "move a directory"}),
        (("move_whole",), {"move a directory whole"}),
        (("set_aside",), {"set aside"}),
        (("delete_file",), {"delete", "replace is bound to a version"}),
        (("delete_version",), {"delete is bound to a version"}),
        (
            ("delete_file", "delete_directory"),
            {"delete", "replace is bound to a version", "clean-up"},
        ),
        (
            ("list_status",),
            {
                "rename enters no directory",
                "one of many renames wins",
                "listings",
                "listings are complete",
                "delete",
                "directories",
                "latency",
            },
        ),
        (
            ("list_files",),
            {
                "listings",
                "listings are complete",
                "delete",
                "move a directory",
                "move a directory whole",
            },
        ),
        (("remove_empty_directory",), {"remove an empty directory", "clean-up"}),
    ],
)
def test_each_missing_permission_is_a_red_line_that_says_what_to_grant(operations, red: set[str]):
    store = memory(identity=Identity.ETAG)
    diagnosis = diagnose(WrappedStore(store, before=forbid(*operations)))
    assert by_verdict(diagnosis, Verdict.FAILED) == red
    for name in red:
        assert "PermissionError" in line(diagnosis, name).measured
        assert line(diagnosis, name).advice.startswith("grant ")


def test_what_could_not_be_removed_is_named():
    store = memory()
    diagnosis = diagnose(WrappedStore(store, before=forbid("delete_directory")))
    (left,) = [one.path for one in store.list_status(f"{DEST}/_temporary")]
    assert left in line(diagnosis, "clean-up").measured


def test_a_store_that_fails_is_red_and_cleaned_up_nevertheless():
    store = memory()

    def fail(call: StoreCall) -> None:
        if call.operation == "rename":
            raise failure(TimeoutError, call)

    diagnosis = diagnose(WrappedStore(store, before=fail))
    assert "simulated failure of rename" in line(diagnosis, "rename").measured
    assert line(diagnosis, "clean-up").verdict is Verdict.OK
    assert store.get_status(f"{DEST}/_temporary") is None


def test_a_file_system_that_can_do_nothing_is_red_and_no_crash():
    def refuse(call: StoreCall) -> None:
        if call.operation == "rename":
            raise StoreRefusedError("can neither rename without replacing nor link files")

    store = memory()
    diagnosis = diagnose(WrappedStore(store, before=refuse))
    assert "nor link files" in line(diagnosis, "rename").measured
    assert "rename" in by_verdict(diagnosis, Verdict.FAILED)
    assert store.files() == {f"{DEST}/p=1/a": b"is there"}


def test_an_interrupted_doctor_cleans_up():
    store = memory()

    def interrupt(call: StoreCall) -> None:
        if call.operation == "replace":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(WrappedStore(store, before=interrupt))
    assert store.get_status(f"{DEST}/_temporary") is None


def test_a_slow_store_is_warned_of(monkeypatch):
    monkeypatch.setattr(doctor, "SLOW_SECONDS", 0.0)
    diagnosis = diagnose(memory())
    assert by_verdict(diagnosis, Verdict.WARNING) >= {"latency"}
    assert not diagnosis.failed


def test_a_latency_is_a_median_and_a_percentile():
    assert doctor.spread([0.001] * 18 + [0.5, 1.0]) == "1.00 ms (p95 500.00)"
    measured = line(diagnose(memory()), "latency").measured
    assert measured.startswith("rename 0.")
    assert measured.count("ms (p95 ") == 2


class Costly(MemoryStore):
    def __init__(self, warnings: list[str] | OSError) -> None:
        super().__init__()
        self._warnings = warnings

    def cost_warnings(self) -> list[str]:
        if isinstance(self._warnings, OSError):
            raise self._warnings
        return self._warnings


@pytest.mark.parametrize(
    ("warnings", "verdict", "text"),
    [
        ([], Verdict.OK, "neither soft delete nor versioning"),
        (["soft delete keeps each file twice"], Verdict.WARNING, "soft delete keeps each file twice"),
        (PermissionError(errno.EACCES, "no", "b"), Verdict.WARNING, "could not be read"),
    ],
)
def test_what_makes_a_commit_dearer_is_a_warning(warnings, verdict: Verdict, text: str):
    store = Costly(warnings)
    store.mkdirs(DEST)
    found = line(diagnose(store), "costs")
    assert (found.verdict, text in found.measured) == (verdict, True)


def test_a_store_that_is_used_at_its_owners_risk_is_a_warning():
    store = memory()
    store.capabilities = replace(store.capabilities, risk="it copies files")
    diagnosis = diagnose(store)
    assert line(diagnosis, "store").verdict is Verdict.WARNING
    assert line(diagnosis, "store").measured == "it copies files"
    assert line(diagnosis, "costs").verdict is Verdict.NOTE
    assert not diagnosis.failed


def test_a_destination_that_is_a_file_is_one_red_line(tmp_path: Path):
    (tmp_path / "f").write_text("x")
    diagnosis = ray_committer.doctor(str(tmp_path / "f"))
    assert by_verdict(diagnosis, Verdict.FAILED) == {"write"}
    assert (tmp_path / "f").read_text() == "x"


@pytest.mark.parametrize("url", ["oss://bucket/table", "zip:///a.zip", "never-heard-of://x/y"])
def test_a_refused_store_is_one_red_line(url: str):
    diagnosis = ray_committer.doctor(url)
    assert [(one.name, one.verdict) for one in diagnosis.lines] == [("store", Verdict.FAILED)]
    assert "cannot be committed to" in diagnosis.lines[0].measured
