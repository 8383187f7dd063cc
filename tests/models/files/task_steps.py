"""The requests of task attempts, of the set-up of a later job, and of who removes a file of others."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.protocol.state import UNDECIDED, Phase
from tests.models.files.steps import Steps
from tests.models.files.world import File, Job, Manifest, Option, Process, Rule, Shared, Step, replaced


class TaskSteps(Steps):
    """The steps of an attempt: stage files, look at them, save a manifest, look again, tell the driver.

    It may sleep anywhere, and then goes on by path, in whatever job has that directory by then.
    """

    def _task_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        if process.job == 0 or self._own(shared, process):  # a later job is set up before its tasks run
            yield self._go(shared, process, "write")

    def _task_write(self, shared: Shared, process: Process) -> Iterator[Step]:
        yield self._go(shared, process, "abort")  # it fails
        onward = self._go(shared, process, "write", at=process.at + 1)[1]
        if process.at + 1 >= self.plan.pieces:
            onward = onward._replace(step="list", at=0)
        if shared.here is not None:
            path, rows = self._file(process, process.at)
            here = shared.here
            name, before = ("staged", here.staged) if here.late is None else ("late", here.late)
            after = frozenset({one for one in before if one[0] != path} | {(path, rows)})
            shared = shared._replace(here=here._replace(**{name: after}))
        yield shared, onward, -1

    def _file(self, process: Process, piece: int) -> File:
        rows = (process.job, process.task, process.attempt, piece)
        return self.path(rows), rows

    def _task_list(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Look at the files with the attempt's token."""
        token = self.token(self._file(process, 0)[0])
        here = shared.here
        staged = (here.staged if here.late is None else here.late) if here else frozenset[File]()
        own = frozenset(one for one in staged if self.token(one[0]) == token)
        if len(own) < self.plan.pieces:
            yield self._go(shared, process, "abort")
        else:
            manifest = Manifest(process.job, process.task, process.attempt, own)
            yield self._go(shared, process, "save", loaded=frozenset({manifest}))

    def _task_save(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Save the manifest; without an answer it may be saved, or be saved later, or never."""
        tried = process._replace(has_tried=True)
        saved = self._saved(shared, tried)
        yield self._go(shared, tried, "abort", after="late")
        if saved is not None:
            looks = self._has(Rule.LOOK_AGAIN) and Option.HADOOPS not in self.options
            yield self._go(saved, tried, "again" if looks else "tell")
            yield self._go(saved, tried, "abort")

    def _saved(self, shared: Shared, process: Process) -> Shared | None:
        (manifest,) = process.loaded
        if shared.here is None or shared.here.saved is None:
            return None
        saved = replaced(shared.here.saved, manifest)
        return shared._replace(here=shared.here._replace(saved=saved))

    def _task_abort(self, shared: Shared, process: Process) -> Iterator[Step]:
        deletes = not process.has_tried or not self._has(Rule.TRIED)
        if shared.here is not None and shared.here.late is None and deletes:
            names = {self._file(process, piece)[0] for piece in range(self.plan.pieces)}
            whole = not self._has(Rule.BY_NAME)
            staged = frozenset(one for one in shared.here.staged if not whole and one[0] not in names)
            shared = shared._replace(here=shared.here._replace(staged=staged))
        if process.after:
            yield self._go(shared, process, process.after)
        else:
            yield self._told(shared, process, "failed")

    def _task_late(self, shared: Shared, process: Process) -> Iterator[Step]:
        """The request to save arrives after all."""
        yield self._told(self._saved(shared, process) or shared, process, "failed")

    def _task_again(self, shared: Shared, process: Process) -> Iterator[Step]:
        own = self._own(shared, process)
        frozen = (own and not self._is_flat and own.frozen) or frozenset[Manifest]()
        counts = own is not None and (own.phase is Phase.OPEN or process.loaded <= frozen)
        if counts:
            yield self._go(shared, process, "tell")
        else:
            yield self._told(shared, process, "failed")

    def _task_tell(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Tell the driver, unless the message is lost."""
        yield self._told(shared, process, "saved")
        if process.job == 0:
            (manifest,) = process.loaded
            told = shared._replace(messages=(*shared.messages, manifest))
            yield self._told(told, process, "saved")

    # A later job of the same id.

    def _setup_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        if shared.is_unclear:
            yield self._told(shared, process, "stuck")
        elif shared.here is not None:
            yield self._told(shared, process, "refused")
        else:
            here = Job(process.job)
            yield self._go(shared._replace(here=here, success=-1), process, "wait")

    def _setup_wait(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Wait for the tasks, then commit."""
        own = self._own(shared, process)
        if own is None:
            yield self._told(shared, process, "failed")
        elif own.saved is None or len(own.saved) >= self.plan.tasks:
            yield shared, Process("commit", process.job, writer=process.writer), -1

    # Others, before anything is frozen.

    def _remover_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Remove the files of an attempt that has not saved, and is taken for dead."""
        own = self._own(shared, process)
        attempt = process[4:6]
        saved = {(one.task, one.attempt) for one in own.saved or ()} if own else set()
        if own is None or own.saved is None or attempt in saved or own.phase not in UNDECIDED:
            yield self._told(shared, process, "late")
            return
        staged = frozenset(one for one in own.staged if one[0][1:3] != attempt)
        yield self._told(shared._replace(here=own._replace(staged=staged)), process, "removed")

    def _trailer_look(self, shared: Shared, process: Process) -> Iterator[Step]:
        """Write one more file of an attempt, which may have saved by now."""
        own = self._own(shared, process)
        if own is None or own.saved is None:
            yield self._told(shared, process, "late")
            return
        file = self._file(process, self.plan.pieces)
        yield self._told(shared._replace(here=own._replace(staged=own.staged | {file})), process, "more")
