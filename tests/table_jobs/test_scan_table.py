"""A scan finds what only the directory of a table, or only its log, has; jobs can be at work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock

import pytest

from ray_committer.errors import (
    CommitConflictError,
    JobNotFoundError,
    PreflightError,
    RayCommitterError,
    TableLogError,
)
from ray_committer.job_files.job_state import advance, read_state
from ray_committer.protocol import file_list
from ray_committer.protocol.paths import SUCCESS
from ray_committer.protocol.state import Phase
from ray_committer.protocol.table_entry import WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.setup_job import setup_job
from ray_committer.table_jobs.scan_table import scan_table
from ray_committer.table_jobs.table import init_table
from ray_committer.tables.append import append
from ray_committer.tables.release import how_to_end
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_abort, run_commit
from ray_committer.testing.harness import put_file, run_undo
from tests.cli.commands import run
from tests.commits.tables import AT_ONCE, OLD, OVERWRITE, THIRD, data_in, data_of_log, in_flight, sizes
from tests.stages.support import (
    JOB,
    ON_DIRECTORIES,
    ON_OBJECTS,
    do_at,
    each_crash,
    state_of,
)
from tests.table_jobs.tables_in_use import (
    NEW,
    OVERWRITE_PARTITIONS,
    Died,
    committed,
    die,
    kinds_of,
    resolve,
    scanned,
    stopped,
    stopped_after_commit,
    table_with_old_files,
    write,
)
from tests.table_jobs.test_resolve_claim import broken_table
from tests.tables.support import TABLE, claim_of, table_on
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")

Kind = Callable[[], MemoryStore]
imports = partial(scanned, import_foreign=True)


def with_foreign(store: MemoryStore) -> MemoryStore:
    table_with_old_files(store)
    put_file(store, "/table/day=1/strange", b"333")
    put_file(store, "/table/top", b"1")
    return store


def with_orphans(store: MemoryStore) -> MemoryStore:
    """A table whose job was given up, and whose new files are still there."""
    stopped(store)
    with pytest.raises(Died):
        resolve(WrappedStore(store, before=do_at("rename", die, end="005.entry")))
    return store


# What it finds


def test_a_table_agrees_with_its_log(kind: Kind):
    store = table_with_old_files(kind())
    before = store.files()
    found = scanned(store)
    assert (found.agrees, found.version, found.compared, found.claims) == (True, 2, 2, ())
    assert store.files() == before


def test_each_difference_is_found(kind: Kind):
    store = with_foreign(kind())
    store.delete_file("/table/day=1/old")
    store.write("/table/day=2/old", b"33")
    before = store.files()
    found = scanned(store)
    assert found.foreign == ("day=1/strange", "top")
    assert found.missing == ("day=1/old",)
    assert found.changed == ("day=2/old: was changed",)
    assert (found.orphans, found.compared, found.agrees) == ((), 2, False)
    assert store.files() == before


def test_orphans_are_found_only_with_proof(kind: Kind):
    store = with_orphans(kind())
    store.write("/table/day=1/new", b"xxx")
    found = scanned(store)
    assert (found.orphans, found.foreign) == (("day=3/new",), ("day=1/new",))


def test_what_readers_do_not_see_and_what_jobs_and_the_log_need_is_not_foreign(kind: Kind):
    store = table_with_old_files(kind())
    for name in (SUCCESS, ".crc", "_metadata/0", "day=1/.a.crc", "_ray_committer/files/x/1-a.z"):
        put_file(store, f"/table/{name}", b"x")
    write(store, NEW, JOB, AT_ONCE)
    assert scanned(store).agrees


def test_a_hidden_file_that_the_log_names_is_looked_for(kind: Kind):
    store = table_with_old_files(kind())
    committed(store, {"_common/meta": b"1"})
    assert scanned(store).agrees
    store.delete_file("/table/_common/meta")
    assert scanned(store).missing == ("_common/meta",)


def test_an_empty_table_agrees(kind: Kind):
    found = scanned(table_on(kind()))
    assert (found.agrees, found.version, found.compared) == (True, 0, 0)


@pytest.mark.parametrize(
    ("phase", "words"),
    [("recorded", [["abort"]]), ("sealed", [["commit"], ["abort", "--undo"]])],
)
def test_a_claim_comes_with_the_commands_for_the_state_of_its_job(kind: Kind, phase: str, words):
    store = table_with_old_files(kind())
    write(store, NEW, JOB, OVERWRITE)
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end=phase)), JOB, OVERWRITE)
    (claim,) = scanned(store).claims
    assert [_verbs(command) for command in claim.commands] == words


def _verbs(command: str) -> list[str]:
    return [word for word in command.split() if word in ("commit", "abort", "--undo")]


@pytest.mark.parametrize("phase", [Phase.SEALED, Phase.UNDOING, Phase.ABORTED])
def test_a_job_that_ends_comes_with_the_one_command_that_is_possible(kind: Kind, phase: Phase):
    store = table_with_old_files(kind())
    write(store, NEW, JOB, OVERWRITE)
    end = "recorded" if phase is Phase.ABORTED else "sealed"
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end=end)), JOB, OVERWRITE)
    seen = read_state(store, JOB)
    assert seen is not None
    advance(store, JOB, seen, phase)
    (claim,) = scanned(store).claims
    (command,) = claim.commands
    words = {Phase.SEALED: "commit", Phase.UNDOING: "abort --undo", Phase.ABORTED: "abort"}
    assert _verbs(command) == words[phase].split()


def test_a_job_that_only_its_own_process_can_finish_comes_with_its_abort(kind: Kind):
    store = table_with_old_files(kind())
    setup_job(store, JOB, from_log=True)
    undo = claim_of("job_1", mode=WriteMode.REPLACE, base=2, nonce=state_of(store).stamp)
    append(store, TABLE, undo, 2)
    (claim,) = scanned(store).claims
    assert [_verbs(command) for command in claim.commands] == [["abort"]]
    found = how_to_end(store, TABLE, ClaimInFlight(3, undo))
    assert found.startswith("only its own process can finish that job: if that has ended, give it up")


def test_claims_in_flight_come_with_the_commands_that_end_them(kind: Kind):
    store = table_with_old_files(kind())
    write(store, NEW, JOB, AT_ONCE)
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end="sealed")), JOB, AT_ONCE)
    found = scanned(store)
    (claim,) = found.claims
    assert (claim.version, claim.job_id, claim.state, found.agrees) == (3, "job_1", "recorded", True)
    assert [command.split()[1] for command in claim.commands] == ["commit", "abort"]
    store.delete_directory("/table/_temporary")
    found = scanned(store)
    (claim,) = found.claims
    assert (claim.state, found.agrees) == (None, False)
    assert [command.split()[-1] for command in claim.commands] == ["job_1"]
    (claim,) = scanned(stopped_after_commit(kind())).claims
    assert [command.split()[-1] for command in claim.commands] == ["job_1"]


# Jobs at work


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE, OVERWRITE_PARTITIONS])
def test_a_job_that_stopped_anywhere_is_no_difference(kind: Kind, options):
    files = {"day=1/new": b"3", "day=2/old": b"namesake"} if options is OVERWRITE else NEW

    def new() -> MemoryStore:
        store = table_with_old_files(kind())
        write(store, files, JOB, options)
        return store

    for store in each_crash(new, lambda one: run_commit(one, JOB, options)):
        found = scanned(store)
        differences = (found.foreign, found.orphans, found.missing, found.changed)
        assert differences == ((), (), (), ())


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
@pytest.mark.parametrize("end", [run_commit, run_abort, run_undo])
@pytest.mark.parametrize("options", [AT_ONCE, OVERWRITE])
def test_a_job_that_ends_at_any_moment_of_the_scan_is_no_difference(kind: Kind, options, end):
    files = {"day=1/new": b"3", "day=2/old": b"namesake"} if options is OVERWRITE else NEW

    def new() -> MemoryStore:
        store = table_with_old_files(kind())
        write(store, files, JOB, options)
        if end is run_undo:
            with pytest.raises(Died):
                run_commit(WrappedStore(store, before=do_at("advance", die, end="sealed")), JOB, options)
        return store

    calls: list[StoreCall] = []
    scanned(WrappedStore(new(), before=calls.append))
    for call in moments(calls):
        store = new()

        def hook(now: StoreCall, number: int = call.number, store: MemoryStore = store) -> None:
            if now.number == number:
                end(store, JOB, *([options] if end is run_commit else []))

        found = scanned(WrappedStore(store, before=hook))
        assert (found.foreign, found.missing, found.changed) == ((), (), ())
        assert found.agrees


@pytest.mark.moments
def test_a_file_that_comes_and_goes_during_the_scan_is_no_difference(kind: Kind):
    calls: list[StoreCall] = []
    scanned(WrappedStore(table_with_old_files(kind()), before=calls.append))
    one_by_one = Lock()
    for call in moments(calls):
        store = table_with_old_files(kind())

        def hook(now: StoreCall, number: int = call.number, store: MemoryStore = store) -> None:
            with one_by_one:  # entries are read in parallel
                if now.number == number:
                    committed(store, {"day=1/new": b"3"}, JOB)
                if now.number == number + 1:
                    committed(store, {"day=9/last": b"3"}, THIRD, OVERWRITE)

        assert scanned(WrappedStore(store, before=hook)).agrees


# --import


def test_foreign_files_are_put_into_the_log(kind: Kind):
    store = with_foreign(kind())
    found = imports(store)
    assert (found.imported, found.foreign, found.agrees) == (2, (), True)
    assert kinds_of(store) == ["claim", "commit"]
    assert data_of_log(store) == data_in(store) == sizes(OLD, {"day=1/strange": b"333", "top": b"1"})
    assert imports(store).imported == 0
    assert scanned(store).agrees
    assert in_flight(store) == []


def test_many_files_are_imported_in_lists(kind: Kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_list, "MOST_INLINE", 1)
    store = with_foreign(kind())
    imports(store)
    assert data_of_log(store) == data_in(store)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_after_a_crash_at_any_request_the_same_command_imports_them(kind: Kind):
    for store in each_crash(lambda: with_foreign(kind()), imports):
        imports(store)
        assert data_of_log(store) == data_in(store)
        assert in_flight(store) == []
        assert scanned(store).agrees


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_an_import_at_any_moment_of_another_job_and_the_reverse(kind: Kind):
    def other(store: MemoryStore) -> None:
        with suppress(RayCommitterError):
            committed(store, NEW, THIRD, OVERWRITE)

    def again(store: MemoryStore) -> None:
        with suppress(RayCommitterError):
            imports(store)

    for first, second in ((imports, other), (other, again), (imports, again)):
        calls: list[StoreCall] = []
        first(WrappedStore(with_foreign(kind()), before=calls.append))
        for call in moments(calls):
            store = with_foreign(kind())

            def hook(
                now: StoreCall, number: int = call.number, store: MemoryStore = store, run=second
            ) -> None:
                if now.number == number:
                    run(store)

            with suppress(RayCommitterError):
                first(WrappedStore(store, before=hook))
            with suppress(RayCommitterError):
                run_commit(store, THIRD, OVERWRITE)
            assert imports(store).agrees
            assert data_of_log(store) == data_in(store)
            assert in_flight(store) == []


def test_a_file_that_changes_before_the_import_is_not_imported(kind: Kind):
    store = with_foreign(kind())
    change = do_at("rename", lambda: store.write("/table/top", b"longer"), end="003.entry")
    with pytest.raises(CommitConflictError, match=r"top: has 6 bytes, not 1") as caught:
        imports(WrappedStore(store, before=change))
    assert caught.value.advice == "no file was put into the log: run the same command again"
    assert data_of_log(store) == sizes(OLD)
    assert imports(store).imported == 2


# Orphans


def test_orphans_are_removed_and_nothing_else(kind: Kind):
    store = with_orphans(kind())
    put_file(store, "/table/day=1/strange", b"?")
    (command,) = scanned(store).orphan_commands
    assert command == "ray-committer table resolve memory://test/table job_1"
    assert resolve(store).removed == 2
    found = scanned(store)
    assert (found.orphans, found.orphan_commands, found.foreign) == ((), (), ("day=1/strange",))
    assert data_in(store) == sizes(OLD, {"day=1/strange": b"?"})
    assert data_of_log(store) == sizes(OLD)
    assert in_flight(store) == []


def test_an_orphan_that_changes_before_it_is_removed_stays(kind: Kind):
    store = with_orphans(kind())
    change = do_at("rename", lambda: store.write("/table/day=1/new", b"longer"), end="005.entry")
    found = resolve(WrappedStore(store, before=change))
    assert (found.removed, found.kept) == (1, ("day=1/new: has 6 bytes, not 3",))
    assert store.read("/table/day=1/new") == b"longer"
    assert in_flight(store) == []


# What is wrong with a table


def test_a_destination_without_a_log_is_named(kind: Kind):
    with pytest.raises(JobNotFoundError, match="/table: is not a table with a log"):
        scanned(kind())


def test_a_table_in_the_table_is_named_and_nothing_of_it_is_imported(kind: Kind):
    store = with_foreign(kind())
    table_on(store, TablePlaces("/table/day=5"))
    before = store.files()
    with pytest.raises(PreflightError, match="/table/day=5/_ray_committer: /table/day=5 is a table"):
        imports(store)
    assert store.files() == before


def test_a_damaged_list_of_a_claim_is_named(kind: Kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_list, "MOST_INLINE", 1)
    for damage in (None, b"", b"x"):
        store = stopped(kind())
        (path,) = (path for path in store.files("/table/_ray_committer/files") if "/job_1-0-" in path)
        if damage is None:
            store.delete_file(path)
        else:
            store.write(path, damage)
        before = store.files()
        for call in (scanned, imports):
            with pytest.raises(TableLogError, match=f"^{path}: is "):
                call(store)
        assert store.files() == before


def test_links_and_names_that_the_log_cannot_hold_are_named(dest: Path):
    dest.mkdir(exist_ok=True)
    init_table(str(dest))
    (dest / "elsewhere").mkdir()
    (dest / "day=1").symlink_to(dest / "elsewhere")
    with pytest.raises(PreflightError, match="day=1: is a symbolic link to a directory"):
        scan_table(str(dest), import_foreign=True)
    (dest / "day=1").unlink()
    with open(os.fsencode(str(dest)) + b"/bad\xff", "wb"):
        pass
    with pytest.raises(PreflightError, match=r"bad\\udcff: its name is not UTF-8"):
        scan_table(str(dest), import_foreign=True)
    result = run("table", "scan", str(dest), "--import")
    assert (result.exit_code, "its name is not UTF-8" in result.stderr) == (1, True)


# The command


def test_the_command_repairs_a_table_on_local_files(dest: Path):
    broken_table(dest)
    (dest / "day=2").mkdir()
    (dest / "day=2/strange").write_text("strange")
    shown = run("table", "scan", str(dest))
    assert (shown.exit_code, shown.stderr) == (5, "")
    assert "1 file foreign, which no entry of the log names:\n  day=2/strange\n" in shown.stdout
    command = next(line for line in shown.stdout.splitlines() if " table resolve " in line)
    assert run(*command.split()[1:]).exit_code == 0
    assert run("table", "scan", str(dest), "--import").exit_code == 0
    found = json.loads(run("table", "scan", str(dest), "--output", "json").stdout)
    assert (found["agrees"], found["compared"], found["foreign"]) == (True, 2, [])
    shown = run("table", "scan", str(dest)).stdout
    assert shown.endswith("the files and the log agree\n")
