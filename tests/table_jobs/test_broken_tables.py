"""What is wrong with a table is named by one error, with the entry and a command; nothing is changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import (
    CommitStateUnknownError,
    PreflightError,
    RayCommitterError,
    SettingsError,
    TableFormatError,
    TableLogError,
    TableLogGapError,
    TableLogGoneError,
    TableVersionGoneError,
)
from ray_committer.options import CommitOptions
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.table_jobs.table import init_table, table_log
from ray_committer.testing import MemoryStore, WrappedStore, run_commit
from tests.cli.commands import error_lines, run, snapshot
from tests.commits.tables import AT_ONCE, OLD, OVERWRITE, data_in, data_of_log, of_mode, sizes
from tests.stages.support import JOB, KINDS, do_at, state_of
from tests.table_jobs.tables_in_use import (
    NEW,
    Died,
    committed,
    die,
    kinds_of,
    table_with_old_files,
    write,
)
from tests.tables.support import TABLE

pytestmark = pytest.mark.usefixtures("no_pauses")

ENTRY = "_ray_committer/log/000000000000/002.entry"
LAST = "_ray_committer/log/000000000000/004.entry"
DEFINITION = "_ray_committer/table.entry"

Damage = Callable[[Path], object]
Kind = Callable[[], MemoryStore]


def text_instead(text: bytes, path: Path) -> None:
    path.write_bytes(text)


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def one_byte_changed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"claim", b"Claim", 1))


DAMAGES: dict[str, tuple[str, Damage, type[TableLogError], str]] = {
    "a changed entry": (ENTRY, one_byte_changed, TableLogError, "is not a file of a table log"),
    "an empty entry": (ENTRY, partial(text_instead, b""), TableLogError, "is not a file of a table log"),
    "half an entry": (ENTRY, half, TableLogError, "is not a file of a table log"),
    "a gap": (ENTRY, Path.unlink, TableLogGapError, "is missing, although later entries"),
    "a newer entry": (ENTRY, partial(text_instead, b'{"format":99}'), TableFormatError, "has format 99"),
    "half the last entry": (LAST, half, TableLogError, "is not a file of a table log"),
    "an empty definition": (DEFINITION, partial(text_instead, b""), TableLogError, "is not a file of"),
    "a newer definition": (DEFINITION, partial(text_instead, b'{"format":99}'), TableFormatError, "has"),
}


def write_one(dest: Path, name: str) -> str:
    job = ray_committer.setup_job(str(dest), f"job_{name}")
    with (
        ray_committer.task_attempt(str(dest), job, task=0) as attempt,
        attempt.open(f"day=1/{name}") as file,
    ):
        file.write(b"x")
    return job


def local_table(dest: Path) -> Path:
    """A table with four entries, and an open job `job_b`."""
    init_table(str(dest))
    ray_committer.commit_job(str(dest), write_one(dest, "a"))
    write_one(dest, "b")
    return dest


CALLS: dict[str, Callable[[str], object]] = {
    "table_log": table_log,
    "scan_table": ray_committer.scan_table,
    "import": partial(ray_committer.scan_table, import_foreign=True),
    "resolve": lambda dest: ray_committer.resolve_claim(dest, "job_a"),
    "commit_job": lambda dest: ray_committer.commit_job(dest, "job_b"),
}
COMMANDS = {
    "log": ("table", "log", "DEST"),
    "scan": ("table", "scan", "DEST", "--import"),
    "resolve": ("table", "resolve", "DEST", "job_a"),
    "commit": ("commit", "DEST", "--job-id", "job_b", "--assume-complete"),
}


def each_damage(readers: Iterable[str]) -> list[tuple[str, str]]:
    """A commit reads the log only from where no claim was in flight, so not its old entries."""
    pairs = itertools.product(DAMAGES, readers)
    return [one for one in pairs if not (one[1].startswith("commit") and DAMAGES[one[0]][0] == ENTRY)]


@pytest.mark.parametrize(("damage", "call"), each_damage(CALLS))
def test_a_damaged_log_is_named_and_nothing_is_changed(dest: Path, damage: str, call: str):
    name, do, error, what = DAMAGES[damage]
    do(local_table(dest) / name)
    before = snapshot(dest / "_ray_committer/log"), snapshot(dest / "day=1")
    with pytest.raises(error, match=f"{dest}/{name}: {what}") as caught:
        CALLS[call](str(dest))
    assert type(caught.value) is error
    assert caught.value.exit_code == 1
    assert "ray-committer table log DEST" in caught.value.advice
    assert (snapshot(dest / "_ray_committer/log"), snapshot(dest / "day=1")) == before


@pytest.mark.parametrize(("damage", "command"), each_damage(COMMANDS))
def test_a_command_names_the_damage_and_its_page(dest: Path, damage: str, command: str):
    name, do, error, what = DAMAGES[damage]
    do(local_table(dest) / name)
    before = snapshot(dest / "_ray_committer/log"), snapshot(dest / "day=1")
    result = run(*(str(dest) if word == "DEST" else word for word in COMMANDS[command]))
    assert result.exit_code == 1
    first, second, third = error_lines(result)
    assert f"{dest}/{name}: {what}" in first
    assert "ray-committer table log DEST" in second
    assert third.endswith(f"ray-committer explain {error.id}")
    assert (snapshot(dest / "_ray_committer/log"), snapshot(dest / "day=1")) == before


def test_init_of_a_tree_with_a_job_at_work_names_the_commands(dest: Path):
    dest.mkdir(exist_ok=True)
    write_one(dest, "b")
    before = snapshot(dest)
    result = run("table", "init", str(dest))
    assert (result.exit_code, "job job_b was set up before" in result.stderr) == (4, True)
    assert f"ray-committer abort {dest} --job-id job_b" in result.stderr
    assert snapshot(dest) == before


def test_a_version_in_the_future_is_named(dest: Path):
    local_table(dest)
    with pytest.raises(TableVersionGoneError, match="has no version 9, the last one is 4"):
        table_log(str(dest), since=9)
    result = run("table", "log", str(dest), "--since", "9")
    assert (result.exit_code, "explain RC-table-version-gone" in result.stderr) == (1, True)
    assert table_log(str(dest), since=4) == []


def test_an_end_that_was_deleted_is_missed_by_a_job_that_has_seen_it(dest: Path):
    local_table(dest)
    (dest / LAST).unlink()
    before = snapshot(dest)
    with pytest.raises(TableLogGoneError, match=r"004\.entry: is gone"):
        ray_committer.commit_job(str(dest), "job_b")
    assert {name: data for name, data in snapshot(dest).items() if "/state/" not in name} == {
        name: data for name, data in before.items() if "/state/" not in name
    }


# A log that is deleted under a job


def restored(store: MemoryStore, files: dict[str, bytes]) -> None:
    store.mkdirs(TABLE.temporaries)
    for path, data in files.items():
        store.mkdirs(path.rpartition("/")[0])
        store.write(path, data)


def test_a_log_that_is_deleted_before_the_claim_changes_nothing(kind: Kind):
    store = table_with_old_files(kind())
    write(store, NEW, JOB, OVERWRITE)
    log = store.files(TABLE.directory)
    store.delete_directory(TABLE.directory)
    with pytest.raises(TableLogGoneError, match=r"table.entry: is gone") as caught:
        run_commit(store, JOB, OVERWRITE)
    assert caught.value.exit_code == 1
    assert state_of(store).phase is Phase.OPEN
    assert data_in(store) == sizes(OLD)
    assert store.files(TABLE.directory) == {}
    restored(store, log)
    run_commit(store, JOB, OVERWRITE)
    assert data_of_log(store) == data_in(store) == sizes(NEW)


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize("entry", ["004.entry", "005.entry"])
@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE])
def test_a_log_that_is_deleted_before_an_entry_is_missed_and_restored(kind: Kind, options, entry: str):
    if options is AT_ONCE and entry == "005.entry":
        return
    store = table_with_old_files(kind())
    write(store, NEW, JOB, options)
    log: dict[str, bytes] = {}

    def delete() -> None:
        log.update(store.files(TABLE.directory))
        store.delete_directory(TABLE.directory)

    with pytest.raises(CommitStateUnknownError, match="_ray_committer") as caught:
        run_commit(WrappedStore(store, before=do_at("rename", delete, end=entry)), JOB, options)
    assert caught.value.exit_code == 3
    assert set(NEW) <= set(data_in(store))
    if entry == "004.entry":
        assert set(OLD) <= set(data_in(store))
    with pytest.raises(CommitStateUnknownError, match=r"table.entry: is gone"):
        run_commit(store, JOB, options)
    assert store.get_status(TABLE.definition) is None
    restored(store, log)
    run_commit(store, JOB, options)
    assert data_of_log(store) == data_in(store)
    assert kinds_of(store) == ["claim", "commit", *(["done"] if options is OVERWRITE else [])]


def test_a_table_that_was_made_anew_under_a_job_is_another_one(kind: Kind):
    store = table_with_old_files(kind())
    write(store, NEW, JOB, AT_ONCE)
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end="sealed")), JOB, AT_ONCE)
    other = store.read(TABLE.definition).replace(b'"id"', b'"xx"')
    store.write(TABLE.definition, other)
    with pytest.raises(CommitStateUnknownError, match=r"table.entry: is (not a file|that of another)"):
        run_commit(store, JOB, AT_ONCE)
    assert set(OLD) <= set(data_in(store))


# Partitions that cannot be


@pytest.mark.parametrize(
    "reads",
    [
        ("/abs",),
        ("/",),
        ("../x",),
        ("day=1/..",),
        ("./day=1",),
        ("day=1//hour=2",),
        ("day=1\0",),
        ("day=\udcff",),
        ("memory://test/table/day=1",),
        "day=1",
    ],
)
def test_what_is_no_relative_directory_cannot_have_been_read(reads):
    with pytest.raises(SettingsError, match=r"^reads=.*: must be") as caught:
        CommitOptions(reads=reads)
    assert caught.value.exit_code == 2
    with pytest.raises(SettingsError, match=r"^reads="):
        CommitOptions().changed(reads=reads)


@pytest.mark.parametrize("reads", [(), ("",), ("day=1",), ("day=1/",), ("a=1/b=x%2Fy",), ("_=1/d",)])
def test_a_relative_directory_can_have_been_read(reads):
    assert CommitOptions(reads=reads).reads == reads


@pytest.mark.parametrize("path", ["day", "day=1/x", "day=a/b"])
def test_a_directory_that_is_not_there_and_no_partition_cannot_have_been_read(kind: Kind, path: str):
    store = table_with_old_files(kind())
    options = of_mode(ConflictMode.APPEND, reads=(path,))
    write(store, NEW, JOB, options)
    before = data_in(store)
    with pytest.raises(PreflightError, match=f"/table/{path}: is not there, although the job") as caught:
        run_commit(store, JOB, options)
    assert "nothing was changed" in caught.value.advice
    assert (state_of(store).phase, data_in(store), kinds_of(store)) == (Phase.OPEN, before, [])


def test_partitions_with_escaped_characters_are_claimed_read_and_replaced_by_their_names(kind: Kind):
    store = table_with_old_files(kind())
    names = {"day=a%2Fb/x": b"1", "day=%/y": b"2", "day=a b/ü": b"3", "day=%zz/x%41": b"4"}
    committed(store, names)
    assert data_of_log(store) == data_in(store) == sizes(OLD, names)
    write(store, {"day=9/sum": b"1"}, JOB, AT_ONCE)
    committed(store, {"day=a%2Fb/z": b"5"})
    reads = of_mode(ConflictMode.APPEND, reads=("day=a%2Fb",))
    with pytest.raises(RayCommitterError, match="has written to day=a%2Fb, which job job_1 has read"):
        run_commit(store, JOB, reads)
    with suppress(RayCommitterError):
        run_commit(store, JOB, of_mode(ConflictMode.APPEND, reads=("day=a%2F",)))
    assert data_of_log(store) == data_in(store)
