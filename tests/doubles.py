"""The store doubles that whole-commit tests run on, each with a job to be committed again and again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ray_committer.job_files.job_state import read_state
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt, join, new_job_attempt
from ray_committer.protocol.record import CommitRecord, ConflictMode, decode_record
from ray_committer.protocol.state import Phase
from ray_committer.stores import uploads
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import Identity, LinkingStore, MemoryStore, visible_files, write_job
from ray_committer.testing.harness import all_files, put_file
from tests.servers.fake_s3 import SERVERS, FakeS3, direct_store

OF_SECOND = f"{1:08x}{0:08x}"
TASKS = {
    0: {f"p=1/a-{0:016x}.txt": b"a", "p=2/b.txt": b"bb"},
    1: {f"p=1/c-{OF_SECOND}.txt": b"ccc", f"top-{OF_SECOND}.txt": b""},
    2: {},
}
"""The files with a token are staged, beside those of the other tasks."""
NEW = {name: data for files in TASKS.values() for name, data in files.items()}
OLD = {"p=1/old.txt": b"old", "p=9/old.txt": b"older", "p=2/b.txt": b"old of the same name"}
OTHER_JOB = {"p=1/other.txt": b"of another job"}
_OF_FIRST = f"{0:016x}"
INTO_NEW = {
    0: {f"p=3/a-{_OF_FIRST}": b"a", f"q=1/r=1/b-{_OF_FIRST}": b"bb", "p=2/c": b"ccc"},
    1: {f"p=3/d-{OF_SECOND}": b"d", f"q=1/r=1/e-{OF_SECOND}": b"ee", f"q=1/r=2/f-{OF_SECOND}": b"fff"},
    2: {},
}
"""Of the new partitions, one has a file without a token; the others go whole where a store can that."""


@dataclass(frozen=True)
class Scenario:
    """A job, how it is committed, and what must be visible in the end. Of each directory that goes
    `whole`, all or nothing is visible, wherever a commit stops."""

    name: str
    old: Mapping[str, bytes]
    options: CommitOptions
    visible: Mapping[str, bytes]
    tasks: Mapping[int, Mapping[str, bytes]] = field(default_factory=lambda: TASKS)
    whole: tuple[str, ...] = ()

    @property
    def new(self) -> dict[str, bytes]:
        """The files of all tasks."""
        return {name: data for files in self.tasks.values() for name, data in files.items()}


APPEND_OLD = {name: data for name, data in OLD.items() if name not in NEW}
SCENARIOS = [
    Scenario("append", APPEND_OLD, CommitOptions(), {**APPEND_OLD, **NEW}),
    Scenario("overwrite", OLD, CommitOptions(mode=ConflictMode.OVERWRITE), NEW),
    Scenario(
        "new partitions",
        APPEND_OLD,
        CommitOptions(),
        {**APPEND_OLD, **{name: data for files in INTO_NEW.values() for name, data in files.items()}},
        INTO_NEW,
        ("p=3", "q=1/r=1", "q=1/r=2"),
    ),
]


@dataclass
class Double:
    """A kind of store; `new_store` opens an empty one below a temporary directory."""

    name: str
    new_store: Callable[[], StoreOperations]
    root: str = "/bucket"
    fake: FakeS3 | None = None
    """The S3 on which `new_store` opens a bucket, if it does."""
    _memory: MemoryStore | None = None
    _saved: Path | None = None
    job: JobAttempt = field(init=False)
    other: JobAttempt | None = None

    @property
    def is_local(self) -> bool:
        """A URL leads to it, so a commit can be run as a person does."""
        return self._memory is None and self.fake is None

    def prepare(self, scenario: Scenario, *, beside_another_job: bool) -> None:
        """Write old files, an uncommitted job, and perhaps another job that is nobody's business."""
        self.job = new_job_attempt(join(self.root, "table"), "job_1", 0)
        if self.fake is not None:
            self.fake.clear()
        store = self.new_store()
        for name, data in scenario.old.items():
            put_file(store, join(self.job.destination, name), data)
        write_job(store, self.job, scenario.tasks, mode=scenario.options.mode)
        if beside_another_job:
            self.other = new_job_attempt(self.job.destination, "job_2", 0)
            write_job(store, self.other, {0: OTHER_JOB})
        if isinstance(store, MemoryStore):
            self._memory = store
        elif self.fake is None:
            self._saved = Path(self.root, "saved")
            shutil.copytree(self.job.destination, self._saved)

    @property
    def moves_whole(self) -> bool:
        """Whether a directory can be moved whole, and proved to be in place."""
        names = {f"memory {kind} directories" for kind in ("etag", "generation", "modification time")}
        return self.name in {"local renameat2", *names}

    def fresh(self) -> StoreOperations:
        """Open a store with what was prepared, at the same path, since manifests hold absolute paths."""
        if self._memory is not None:
            return self._memory.copy()
        if self.fake is not None:
            return direct_store(self.fake.copy())
        assert self._saved is not None
        shutil.rmtree(self.job.destination, ignore_errors=True)
        shutil.copytree(self._saved, self.job.destination)
        return self.new_store()

    def check_finished(self, store: StoreOperations, visible: Mapping[str, bytes]) -> None:
        """Complete, exclusive, marked, nothing left of the job, and all of the other one still there."""
        assert visible_files(store, self.job.destination) == visible
        assert store.get_status(self.job.success) is not None
        assert store.get_status(self.job.job_directory) is None
        if self.other is None:
            assert store.get_status(self.job.temporary) is None
            assert pending_uploads(store) == []
        elif store.has(StoreOperations.publish):
            assert pending_uploads(store) == [join(self.job.destination, name) for name in OTHER_JOB]
        else:
            assert list(all_files(store, self.other.tasks).values()) == list(OTHER_JOB.values())
            assert len(all_files(store, self.other.manifests)) == 1


def doubles(directory: Path) -> dict[str, Double]:
    """Every double, by name."""

    def memory(identity: Identity, *, real: bool) -> Callable[[], StoreOperations]:
        return lambda: MemoryStore(identity=identity, real_directories=real, listing_is_cheap=real)

    found = [
        Double("local renameat2", partial(LocalStore, StoreSpec("file")), str(directory)),
        Double("local link+unlink", partial(LinkingStore, StoreSpec("file")), str(directory)),
    ]
    for identity in Identity:
        for real in (True, False):
            kind = "directories" if real else "flat"
            found.append(Double(f"memory {identity.value} {kind}", memory(identity, real=real)))
    for name, fields in SERVERS.items():
        fake = FakeS3(**fields)
        found.append(Double(f"s3 {name}", partial(direct_store, fake), fake=fake))
    return {double.name: double for double in found}


def pending_uploads(store: StoreOperations) -> list[str]:
    """The files whose uploads are pending; none on a store with renames."""
    if not store.has(StoreOperations.publish):
        return []
    return [one.path for one in uploads.pending_uploads(store, "/")]


NAMES = tuple(doubles(Path("/")))


def check_unfinished(store: StoreOperations, job: JobAttempt, scenario: Scenario) -> None:
    """Whatever happened, old files go only when all new ones are in place, and none is anything else."""
    seen = visible_files(store, job.destination)
    everything = {**scenario.old, **scenario.visible}
    for name, data in seen.items():
        assert data in (everything[name], scenario.old.get(name)), name
    gone = scenario.old.keys() - seen.keys()
    assert not gone or scenario.new.items() <= seen.items(), gone


def check_whole(store: StoreOperations, double: Double, scenario: Scenario) -> None:
    """Of each directory that goes whole, all or nothing is visible."""
    seen = visible_files(store, double.job.destination)
    for directory in scenario.whole if double.moves_whole else ():
        of_job = {name for name in scenario.new if name.startswith(f"{directory}/")}
        assert of_job & seen.keys() in (of_job, set()), directory


def phase_of(store: StoreOperations, job: JobAttempt) -> Phase | None:
    """How far a job got; None if it is over, or never was."""
    seen = read_state(store, job)
    return seen.phase if seen else None


def recorded(store: StoreOperations, job: JobAttempt) -> CommitRecord:
    """The commit record that a job's state names."""
    seen = read_state(store, job)
    assert seen is not None
    assert seen.state.record is not None
    path = job.content(seen.state.record)
    return decode_record(store.read(path), path)
