"""The files of a task attempt on a store where a file is an upload until the commit completes it.

Before its first part, each upload is noted in the directory of its task attempt. So an abort of the
attempt or of its job, also after the task was killed, finds the uploads that it has to abort.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from ray_committer.errors import ManifestError, TaskCommitError, mark
from ray_committer.protocol.actions import predict_etag
from ray_committer.protocol.manifest import (
    COPY_PREFIX,
    MAX_PARTS,
    FileEntry,
    copy_name,
    decode_manifest,
    digest,
)
from ray_committer.protocol.paths import join
from ray_committer.stores.at_once import streamed
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.parts import PartedFile
from ray_committer.work.entries import uri_of

IN_FLIGHT = 2

NOTES = "uploads"
SUFFIX = ".upload"
_NOTE = msgspec.json.Decoder(FileEntry)


class TaskUploads:
    """The uploads of one task attempt, whose job has this `stamp`; used by several threads."""

    def __init__(self, store: StoreOperations, directory: str, stamp: str | None) -> None:
        self._store, self._directory, self._stamp = store, directory, stamp
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._files: dict[str, UploadFile] = {}

    def open(self, path: str) -> UploadFile:
        """Begin the file that the commit puts at `path`; ``FileExistsError`` the second time."""
        with self._lock:
            if path in self._files:
                raise FileExistsError(errno.EEXIST, "was opened before by this task attempt", path)
            note = join(self._directory, NOTES, f"{next(self._numbers):06d}{SUFFIX}")
            file = self._files[path] = UploadFile(self._store, path, note, self._stamp)
        return file

    def entries(self) -> list[FileEntry]:
        """The entries of all files; `TaskCommitError` names one that was not closed."""
        entries = []
        for path, file in sorted(self._files.items()):
            if file.entry is None:
                raise TaskCommitError(f"{mark(path)}: was opened but not closed", "close it in the task")
            entries.append(file.entry)
        return entries

    def abort(self) -> None:
        """Abort all uploads; idempotent."""
        for file in self._files.values():
            file.abort()

    def remove_notes(self) -> None:
        """Remove the notes after a copy of the manifest was saved: a clean-up then deletes few files."""
        if self._files:
            self._store.delete_listed((join(self._directory, NOTES),), lambda: True)


def save_copy(store: StoreOperations, directory: str, manifest: bytes) -> None:
    """Save a copy of a task attempt's manifest in its `directory`; idempotent. A later attempt of the
    task can replace the manifest, but not the copy, because the name of a copy has the digest of its
    content. So the uploads of an attempt that does not count are found."""
    store.write(join(directory, copy_name(digest(manifest))), manifest)


def is_own_file(name: str) -> bool:
    """Whether a task attempt's file is a note of an upload, or a copy of its manifest."""
    return name.endswith(SUFFIX) or name.startswith(COPY_PREFIX)


class UploadFile(PartedFile):
    """One file that is written in parts; nobody sees it before the job's commit completes it. `entry` is
    its entry in the manifest, once it is closed. Two parts are uploaded at the same time."""

    def __init__(self, store: StoreOperations, path: str, note: str, stamp: str | None) -> None:
        super().__init__(store, path)
        self.note, self._stamp = note, stamp
        self._upload: str | None = None
        self._etags: list[str] = []  # of parts, as this process computes them
        self.entry: FileEntry | None = None

    def abort(self) -> None:
        """Abort the upload; idempotent. The file is closed without the rest of it."""
        self._end()
        if self._upload is not None:
            self._store.abort_upload(self.path, self._upload)

    def _put(self, size: int) -> None:
        """Upload the next part on another thread, if not too many are under way."""
        if len(self._parts) == MAX_PARTS:
            raise OSError(
                errno.EFBIG, f"needs more than {MAX_PARTS} parts: write smaller files", self.path
            )
        if len(self._parts) >= IN_FLIGHT:
            self._parts[-IN_FLIGHT].result()
        self._pool = self._pool or ThreadPoolExecutor(IN_FLIGHT)
        data = self._take(size)
        number = self._add(data)
        upload = self._begin()
        self._parts.append(self._pool.submit(self._store.put_part, self.path, upload, number, data))

    def _add(self, data: bytes) -> int:
        self._etags.append(hashlib.md5(data, usedforsecurity=False).hexdigest())
        return len(self._etags)

    def _begin(self, whole: tuple[str, ...] | None = None) -> str:
        """Begin the upload unless that is done, and note it; `whole` are the etags of all its parts."""
        if self._upload is None:
            self._upload = self._store.begin_upload(self.path, self._stamp)
            self._note(self._entry(whole))
        return self._upload

    def _finish(self) -> None:
        if not self._parts:  # one part, which may be empty
            data = self._take(len(self._waiting))
            number = self._add(data)
            upload = self._begin(tuple(self._etags))
            etags = [self._store.put_part(self.path, upload, number, data)]
            is_noted = etags == self._etags
        else:
            if self._waiting:
                self._put(len(self._waiting))
            etags, is_noted = [part.result() for part in self._parts], False
        entry = self._entry(tuple(etags), is_md5=etags == self._etags)
        if not is_noted:
            self._note(entry)
        self.entry = entry

    def _entry(self, parts: tuple[str, ...] | None, *, is_md5: bool = True) -> FileEntry:
        return FileEntry(
            d=uri_of(self._store.spec, self.path),
            z=self._written,
            u=self._upload,
            p=parts,
            e=predict_etag(parts) if parts and is_md5 else None,
        )

    def _note(self, entry: FileEntry) -> None:
        self._store.write(self.note, msgspec.json.encode(entry))


def read_notes(
    store: StoreOperations, tasks: str, *, skips_damaged: bool
) -> Iterator[tuple[str, Sequence[FileEntry]]]:
    """The files with notes below `tasks`, each with the uploads that it names, few at a time and in no
    order; open uploads have no parts. `ManifestError` for damage, unless it `skips_damaged` notes."""
    names = [status.path for status in store.list_files(tasks)]
    paths = [path for path in names if is_own_file(path.rpartition("/")[2])]
    notes_read = streamed(store, partial(_read_note, store, skips_damaged=skips_damaged), paths)
    yield from zip(paths, notes_read, strict=True)


def closed_uploads(store: StoreOperations, directory: str) -> list[FileEntry]:
    """The entries of the files that a task attempt has closed, from its notes; only for who knows that
    no write has failed: a file of one part is noted with that part before it is uploaded."""
    notes = read_notes(store, directory, skips_damaged=False)
    closed = {entry.u: entry for _, noted in notes for entry in noted if entry.p}
    return sorted(closed.values(), key=lambda entry: entry.d)


def _read_note(store: StoreOperations, path: str, *, skips_damaged: bool) -> Sequence[FileEntry]:
    try:
        data = store.read(path)
        if not path.endswith(SUFFIX):
            return decode_manifest(data, path).files
        return [_NOTE.decode(data)]
    except FileNotFoundError:
        return []
    except (ManifestError, msgspec.MsgspecError) as e:
        if skips_damaged:
            return []
        raise ManifestError(f"{mark(path)}: is not the note of an upload: {e}", "remove it") from e
