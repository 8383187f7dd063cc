"""How a job's own files, such as a manifest or ``_SUCCESS``, get their names: in one step, and whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ray_committer.limits.settle import ATTEMPTS, settle
from ray_committer.stores.base import StoredState, StoreOperations


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The defaults are the form for stores with renames: a file is written, then renamed."""

    store: StoreOperations

    def prepare(self, temporary: str, data: bytes) -> None:
        """Write what is soon `put`, where that takes time."""
        self.store.write(temporary, data)

    def put(
        self,
        path: str,
        data: bytes,
        *,
        temporary: str,
        is_prepared: bool = False,
        attempts: int = ATTEMPTS,
        is_meant: Callable[[], bool] = lambda: True,
    ) -> None:
        """Put a file in place, atomically, whether or not there is one; idempotent. Nothing else uses
        the name `temporary`, which may be prepared. Where nothing of a job that has ended shows that a
        write is late, a file is only replaced if, after it was looked at, `is_meant` returns True."""
        if not is_prepared:
            self.store.write(temporary, data)
        try:
            settle(
                lambda: self.store.replace(temporary, path),
                lambda: self._read(path) == data,
                attempts=attempts,
            )
        except FileNotFoundError:  # an earlier request did this, although it seemed to fail
            if self._read(path) != data:
                raise

    def put_named(self, path: str, data: bytes, *, temporary: str) -> None:
        """Put a file in place whose name says what is in it; idempotent."""
        self.put(path, data, temporary=temporary)

    def put_new(self, path: str, data: bytes, draft: Callable[[bytes], str]) -> bool:
        """Put a file in place, never over another; return whether the name from `draft` is gone."""
        temporary = draft(data)
        settle(lambda: self.store.rename(temporary, path))
        return True

    def _read(self, path: str) -> bytes | None:
        try:
            return self.store.read(path)
        except FileNotFoundError:
            return None


class WrittenFiles(OwnFiles):
    """The form for S3: a write is atomic, and names what it replaces."""

    __slots__ = ()

    def prepare(self, temporary: str, data: bytes) -> None:
        pass

    def put(
        self,
        path: str,
        data: bytes,
        *,
        temporary: str,
        is_prepared: bool = False,
        attempts: int = ATTEMPTS,
        is_meant: Callable[[], bool] = lambda: True,
    ) -> None:
        """One request, which does nothing if another process has written the file meanwhile: then that
        file is looked at, and replaced. Mostly there is none, so it is looked for only then."""
        replaced: StoredState | None = None
        for attempt in range(attempts + 1):
            try:
                settle(
                    partial(self.store.advance, path, replaced, data.decode()),
                    lambda: self._read(path) == data,
                    attempts=attempts,
                )
            except (FileExistsError, FileNotFoundError) as e:
                if self._read(path) == data:  # by a request without an answer
                    return
                # The bucket is gone, or others write all the time: then somebody must look.
                if isinstance(e, FileNotFoundError) or attempt == attempts:
                    raise
                current = self.store.get_status(path)
                is_file = current is not None and not current.is_directory
                replaced = StoredState("", current.version) if current and is_file else None
                # After the look: a job that has ended by then must not replace a later job's file.
                if not is_meant():
                    return
            else:
                return

    def put_named(self, path: str, data: bytes, *, temporary: str) -> None:
        settle(lambda: self.store.write(path, data))

    def put_new(self, path: str, data: bytes, draft: Callable[[bytes], str]) -> bool:
        settle(lambda: self.store.create(path, data))
        return False
