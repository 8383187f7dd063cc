"""What a record names is loaded from packs and nothing else, and checked as if a stranger wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import structs

from ray_committer.errors import LinkedPathError, PackChangedError, PreflightError
from ray_committer.protocol.actions import Rename
from ray_committer.protocol.pack import Entry, Pack, encode_section
from ray_committer.protocol.recovery import Expectation
from ray_committer.stages.load_manifests import LoadedManifests, save_packs
from ray_committer.stages.load_packs import collect_packs, load_packs
from ray_committer.testing import MemoryStore
from ray_committer.work.packs import save_pack
from tests.stages.support import (
    JOB,
    context,
    freeze,
    loaded,
    record_of,
    requests,
    source_path,
    with_job,
)

TASKS = {n: {f"p={n}/f{file}": b"x" for file in range(n)} for n in range(5)}


def recorded(store: MemoryStore) -> tuple[LoadedManifests, Callable[..., LoadedManifests]]:
    """What was loaded, and how another process loads the record of it."""
    found = context(store)
    saved = save_packs(found, loaded(found))
    record = record_of(saved.packs, tasks=saved.tasks, statistics=saved.statistics)
    return saved, lambda one, roots=("/table",): load_packs(context(one), record, roots)


@pytest.mark.parametrize("tasks", [{}, {0: {"a": b"a"}}, TASKS])
def test_what_a_record_names_costs_a_read_of_each_pack(tasks):
    store = with_job(tasks)
    saved, load = recorded(store)
    store.write(f"{JOB.manifests}/task_late-manifest.json", b"of an attempt that is late")
    freeze(store)
    assert requests(store, load) == Counter(read=len(saved.packs))
    found = load(store)
    assert [pack.ref for pack in found.packs] == [pack.ref for pack in saved.packs]
    assert (found.tasks, found.files, found.statistics) == (saved.tasks, saved.files, saved.statistics)


@pytest.mark.parametrize("data", [None, b"", b"{}"])
def test_a_pack_that_is_gone_or_replaced_stops_the_commit(data: bytes | None):
    store = with_job(TASKS)
    saved, load = recorded(store)
    path = f"{JOB.packs}/{saved.packs[0].ref.name}"
    store.delete_file(path)
    if data is not None:
        store.write(path, data)
    with pytest.raises(PackChangedError, match=path):
        load(store)


def test_a_name_that_leads_out_of_the_directory_of_packs_is_not_read():
    store = with_job(TASKS)
    saved, _ = recorded(store)
    ref = saved.packs[0].ref
    store.write(f"{JOB.directory}/moved", store.read(f"{JOB.packs}/{ref.name}"))
    planted = record_of([Pack(structs.replace(ref, name="../moved"))])
    with pytest.raises(PackChangedError):
        load_packs(context(store), planted, ("/table",))


def test_a_new_coordinator_is_told_all_again():
    store = with_job(TASKS)
    found = context(store)
    one = loaded(found)
    directories = found.executor.directories
    known = sorted(directories.share(0, 1))
    directories.forget()
    assert requests(store, lambda _: collect_packs(found, one.packs, ("/table",))) == Counter()
    assert sorted(directories.share(0, 1)) == known
    assert directories.repeated() == frozenset()


def entry(source: str, dest: str) -> Entry:
    return Rename(source, dest, Expectation(1))


OWN = source_path(0, "a")


@pytest.mark.parametrize(
    "planted",
    [
        entry(f"{JOB.tasks}/../manifests/a", "/table/a"),
        entry(f"{JOB.tasks}/attempt/..", "/table/a"),
        entry(OWN, "/elsewhere/a"),
        entry(OWN, "/table/../a"),
        entry(OWN, "/table/p=1/.."),
        entry(OWN, "/table/_SUCCESS"),
        entry(OWN, "/table/_temporary/job_2/00/tasks/a"),
        entry(OWN, "/table/_ray_committer/log/a"),
        entry(OWN, "/table/" + "x" * 300),
    ],
)
def test_a_planted_pack_names_nothing_that_the_job_cannot_touch(planted: Entry):
    store = with_job({0: {"a": b"a"}})
    pack = save_pack(store, JOB, encode_section([planted], JOB.tasks).pack())
    with pytest.raises(PreflightError, match=pack.ref.name):
        load_packs(context(store), record_of([pack]), ("/table",))


@pytest.mark.parametrize("directory", ["/elsewhere", "/table/..", "/table/_temporary"])
def test_a_planted_pack_makes_no_directory_elsewhere(directory: str):
    store = with_job({0: {"a": b"a"}})
    pack = save_pack(store, JOB, encode_section([], JOB.tasks, [directory]).pack())
    with pytest.raises(PreflightError, match=pack.ref.name):
        load_packs(context(store), record_of([pack]), ("/table",))


class WithLink(MemoryStore):
    """A store on which one directory of a task is a link."""

    def first_link(self, paths) -> str | None:
        return next((path for path in paths if path.endswith("/linked")), None)


def test_what_is_behind_a_link_is_not_the_jobs():
    store = with_job({0: {"a": b"a"}}, store=WithLink())
    behind = encode_section([entry(f"{JOB.tasks}/linked/a", "/table/a")], JOB.tasks)
    pack = save_pack(store, JOB, behind.pack())
    with pytest.raises(LinkedPathError):
        load_packs(context(store), record_of([pack]), ("/table",))
