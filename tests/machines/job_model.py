"""A model of what must be at a destination after any sequence of operations on its jobs.

The model reads one thing from the store, because no caller of a crashed operation can know it: the state
of the job. Everything that must be true follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ray_committer.job_files.others import list_gone
from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommittedTask
from ray_committer.places.base import tasks_of
from ray_committer.places.choose import old_files_of
from ray_committer.protocol import state as state_of
from ray_committer.protocol.paths import JobAttempt, parent
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import all_files, source_of, visible_files
from ray_committer.testing.memory_store import moved

WHOLE_DESTINATION = ""


class Phase(StrEnum):
    """The progress of a job; a committed job still needs a clean-up, a job that is over does not."""

    OPEN = "open"
    DECIDED = "decided"
    UNDOING = "undoing"
    COMMITTED = "committed"
    ABORTING = "aborting"
    OVER = "over"


@dataclass(slots=True)
class ModelAttempt:
    """A task attempt and the files that it wrote, named relative to the destination."""

    task: int
    task_attempt_id: str
    files: dict[str, bytes] = field(default_factory=dict)
    result: CommittedTask | None = None


@dataclass(slots=True)
class ModelJob:
    """A job: `root` is the directory that it replaces, relative to the destination, None if it appends.

    old: the files that it replaces according to its record.
    was_cut: a run of it met faults.
    has_zombie_files: an attempt wrote after the job was over.
    is_closed: no task can commit any more, because a commit has begun, even if it decided nothing.
    is_sealed: old files may be removed.
    is_undoable: they are put aside, so that the job can be undone although it is sealed.
    was_committed: its files are visible, even if nothing shows any more that it was committed.
    """

    job: JobAttempt
    root: str | None = None
    phase: Phase = Phase.OPEN
    running: list[ModelAttempt] = field(default_factory=list)
    winners: dict[int, ModelAttempt] = field(default_factory=dict)
    attempts: int = 0
    old: dict[str, bytes] = field(default_factory=dict)
    was_cut: bool = False
    has_zombie_files: bool = False
    is_closed: bool = False
    is_sealed: bool = False
    is_undoable: bool = False
    was_committed: bool = False

    @property
    def files(self) -> dict[str, bytes]:
        """The files that the job makes visible; in the end all of them or none."""
        return {name: data for one in self.winners.values() for name, data in one.files.items()}

    def sources(self) -> dict[str, tuple[str, bytes]]:
        """Where each file was written, and its content, by its name at the destination."""
        return {
            name: (source_of(self.job, attempt.task_attempt_id, name), data)
            for attempt in self.winners.values()
            for name, data in attempt.files.items()
        }

    def replaces(self, name: str) -> bool:
        """Whether a file with this name would be replaced if it existed when the job is decided."""
        return self.root is not None and (not self.root or name.startswith(f"{self.root}/"))

    @property
    def is_passed_by_appends(self) -> bool:
        """Whether only old files are left to remove."""
        return self.phase is Phase.DECIDED and self.is_sealed and self.root is not None

    def is_hindered(self, other: ModelJob) -> bool:
        """Whether the job must not be decided beside one that has died in the middle: one of them
        replaces where the other writes, or both write to one directory."""
        if self.root is None and other.is_passed_by_appends:
            return False
        meets = not self._directories().isdisjoint(other._directories())
        return meets or self._excludes(other) or other._excludes(self)

    def _directories(self) -> set[str]:
        return {parent(name) for name in self.files}

    def _excludes(self, other: ModelJob) -> bool:
        if self.root is None:
            return False
        wanted = {parent(name) for name in other.files} | ({other.root} - {None})
        return any(not self.root or not one or one == self.root for one in wanted)


@dataclass(slots=True)
class DestinationModel:
    """A destination: an unfinished job must not take away `settled` files, except its `old` files."""

    settled: dict[str, bytes] = field(default_factory=dict)
    jobs: list[ModelJob] = field(default_factory=list)

    def in_phase(self, *phases: Phase) -> list[ModelJob]:
        """The jobs in one of these phases."""
        return [job for job in self.jobs if job.phase in phases]

    def blockers(self, job: ModelJob) -> list[str]:
        """The files of others at the paths of the job's files that the job does not replace."""
        if job.phase is Phase.DECIDED:
            return [name for name in job.files if name in self.settled and not self._is_old(job, name)]
        return [name for name in job.files if name in self.settled and not job.replaces(name)]

    def old_files(self, visible: Mapping[str, bytes]) -> list[str]:
        """The existing files that a decided job is going to remove or replace."""
        return [
            name
            for job in self.in_phase(Phase.DECIDED)
            for name in job.old
            if self._is_old(job, name) and visible.get(name) == job.old[name]
        ]

    def learn(
        self, store: StoreOperations, job: ModelJob, *, aborts: bool = False, undoes: bool = False
    ) -> None:
        """Read the state of the job after a commit, an abort or an undo, and record its progress."""
        state = read_job(store, job.job)
        job.is_closed |= state.is_decided
        match state.phase:
            case state_of.Phase.COMMITTED:
                self._note_commit_point(job)
            case state_of.Phase.RECORDED:
                _check(not job.is_sealed, job, "is no longer sealed")
                self._note_record(job)
            case state_of.Phase.SEALED:
                self._note_record(job)
                job.is_sealed = True
                job.is_undoable = old_files_of(store).puts_aside and job.old.keys().isdisjoint(job.files)
            case state_of.Phase.UNDOING:
                self._note_undo(job, undoes=undoes)
                job.phase = Phase.UNDOING
            case state_of.Phase.ABORTED:
                self._note_abort(job, undoes=undoes)
                job.phase = Phase.ABORTING
            case state_of.Phase.OPEN if aborts and job.phase in (Phase.ABORTING, Phase.OVER):
                job.phase = Phase.ABORTING  # what was left without a state is being aborted
            case state_of.Phase.OPEN | state_of.Phase.DECLARED as phase:
                _check(job.phase is Phase.OPEN, job, "has lost its record")
                is_frozen = store.get_status(job.job.manifests) is None
                job.is_closed = is_frozen or phase is state_of.Phase.DECLARED
            case _:
                self._note_gone(job, aborts=aborts, undoes=undoes, is_left=state.exists)

    def check(self, store: StoreOperations, destination: str) -> None:
        """Assert that exactly the right files are visible, and that nothing is lost."""
        visible = visible_files(store, destination)
        for name in sorted(visible.keys() | self.settled.keys()):
            allowed = self._allowed(name, visible)
            found = visible.get(name)
            assert found in allowed, f"{name}: is {_shown(found)}, not {list(map(_shown, allowed))}"
        for job in self.in_phase(Phase.OPEN, Phase.DECIDED):
            self._check_kept(store, job, visible)

    def check_clean(self, store: StoreOperations, job: ModelJob) -> None:
        """Assert that an ended job left nothing, except what was written after its end."""
        left = all_files(store, job.job.job_directory)
        if job.has_zombie_files:
            left = {path: data for path, data in left.items() if not path.startswith(job.job.tasks)}
        _check(not left, job, f"left {list(left)}")
        if not (job.was_cut or job.has_zombie_files):
            _check(store.get_status(job.job.job_directory) is None, job, "left its directory")

    def check_swept(self, store: StoreOperations, destination: str) -> None:
        """Assert that everything that was taken away to be deleted is gone."""
        left = [gone.directory for gone in list_gone(store, destination)]
        assert not left, f"left {left}"

    def _note_record(self, job: ModelJob) -> None:
        _check(job.phase in (Phase.OPEN, Phase.DECIDED), job, "has a record")
        if job.phase is Phase.OPEN:
            self._decide(job)

    def _note_undo(self, job: ModelJob, *, undoes: bool) -> None:
        is_allowed = undoes and job.phase is Phase.DECIDED and (job.is_undoable or not job.is_sealed)
        _check(is_allowed or job.phase is Phase.UNDOING, job, "is being undone")

    def _note_abort(self, job: ModelJob, *, undoes: bool) -> None:
        if job.phase not in (Phase.OPEN, Phase.ABORTING, Phase.OVER):
            self._note_undo(job, undoes=undoes)

    def _note_commit_point(self, job: ModelJob) -> None:
        before = (Phase.OPEN, Phase.DECIDED, Phase.COMMITTED)
        _check(job.phase in before, job, "is committed")
        self._finish(job)
        job.phase = Phase.COMMITTED

    def _note_gone(self, job: ModelJob, *, aborts: bool, undoes: bool, is_left: bool) -> None:
        if aborts:
            self._note_abort(job, undoes=undoes)
            is_over = job.phase is Phase.OVER or not is_left  # what a committed job left is over, too
            job.phase = Phase.OVER if is_over else Phase.ABORTING
        elif job.phase is Phase.ABORTING:  # its record may have gone before its directory did
            _check(is_left, job, "was deleted by a commit")
        elif job.phase is not Phase.OVER:
            self._finish(job)
            job.phase = Phase.OVER

    def _decide(self, job: ModelJob) -> None:
        job.old = {name: data for name, data in self.settled.items() if job.replaces(name)}
        job.phase = Phase.DECIDED

    def _finish(self, job: ModelJob) -> None:
        """From now on the job's files are there, and the files that it replaced are not."""
        if job.phase is Phase.OPEN:
            self._decide(job)
        if job.phase is Phase.DECIDED:
            for name in [name for name in job.old if self._is_old(job, name)]:
                del self.settled[name]
            self.settled.update(job.files)
            job.was_committed = True

    def _is_old(self, job: ModelJob, name: str) -> bool:
        """Whether a file is the one in the job's record, and not a newer file with that name."""
        return name in job.old and self.settled.get(name) == job.old[name]

    def _allowed(self, name: str, visible: Mapping[str, bytes]) -> list[bytes | None]:
        """The contents that a reader can find under a name; None means no file."""
        allowed = [self.settled.get(name)]
        for job in self.in_phase(Phase.DECIDED):
            files = job.files
            if name in files and (self._is_old(job, name) or self._may_be_free(name)):
                allowed.append(files[name])
            elif self._is_old(job, name) and files.items() <= visible.items():
                allowed.append(None)
        for job in self.in_phase(Phase.UNDOING):  # what it has moved goes, and nothing else does
            if name in job.files and name not in self.settled:
                allowed.append(job.files[name])
            if job.is_sealed and self._is_old(job, name):
                allowed.append(None)
        return allowed

    def _may_be_free(self, name: str) -> bool:
        """Whether no settled file has this name, or one that a sealed job may have removed by now."""
        sealed = [job for job in self.in_phase(Phase.DECIDED) if job.is_sealed]
        return name not in self.settled or any(self._is_old(job, name) for job in sealed)

    def _check_kept(self, store: StoreOperations, job: ModelJob, visible: Mapping[str, bytes]) -> None:
        places = [place.tasks for place in tasks_of(store, job.job)]
        kept = {place: all_files(store, place) for place in places}
        for name, (source, data) in job.sources().items():
            is_moved = job.phase is Phase.DECIDED and visible.get(name) == data
            is_kept = any(
                kept[place].get(moved(source, job.job.tasks, place)) == data for place in places
            )
            _check(is_moved or is_kept, job, f"has lost {name}")


def _check(holds: bool, job: ModelJob, what: str) -> None:
    assert holds, f"{job.job.job_id} ({job.phase.value}) {what}"


def _shown(data: bytes | None) -> str:
    return "absent" if data is None else repr(data[:40])
