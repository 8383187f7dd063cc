"""The operations that a commit needs from a store, and what a store must guarantee.

Paths are decoded and absolute (``/bucket-relative/or/file-system/path``). Errors are Python's own:
``FileNotFoundError``, ``FileExistsError``, ``NotADirectoryError``, ``PermissionError``; `ThrottledError`
when the store did nothing and wants fewer requests, `StoreUnavailableError` when it did not answer.
"""

from __future__ import annotations

import errno
from abc import ABC
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.paths import parent
from ray_committer.protocol.recovery import Observation
from ray_committer.stores.answers import PageTokens
from ray_committer.stores.operations import operation
from ray_committer.stores.uploads import BucketSettings, UploadedParts, UploadPage

MOST_FILE_BYTES = 1 << 30
"""The longest file of a job that is read whole, and the longest listing without pages."""
STATE_SUFFIX = ".state"
"""The suffix of a state's name, on a store that keeps a state as a name."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """How any process opens the store: a URL's scheme and authority, and fsspec storage options."""

    scheme: str
    authority: str = ""
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """Can contain secrets, and values that have no hash."""


class FileStatus(msgspec.Struct, frozen=True, gc=False):  # one per file that is listed
    """One file or directory as the store lists it. A link (`is_link`) has its own size and time, and is
    a directory if it leads to one. A rename keeps `etag` and `file_id`. Requests can be bound to
    `version`, this content at this place. No listing shows `stamp`, which an upload gives its file."""

    path: str
    is_directory: bool
    is_link: bool = False
    size: int = 0
    modified_milliseconds: int | None = None
    etag: str | None = None
    file_id: str | None = None
    version: str | None = None
    stamp: str | None = None
    is_special: bool = False
    """It is a fifo, a socket or a device, or a link to one."""
    rights: str | None = None
    """Of a directory that is listed: its owner, group and mode, equal to those of another directory only
    if the texts are equal. None if that is not known, or if it is shown to have an access list."""

    @property
    def name(self) -> str:
        """The last element of the path."""
        return self.path.rpartition("/")[2]

    def observation(self) -> Observation:
        """Return the parts of this status that identify the file."""
        return Observation(self.size, self.etag, self.modified_milliseconds, self.file_id)


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state as it was read: its text and, on an object store, the version of its object."""

    text: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class FilePage:
    """A page of a listing of files; `after` is where the next page begins, None after the last one."""

    files: list[FileStatus]
    after: str | None = None


class Versions(StrEnum):
    """Whether a rename can be bound to the version of its source, and where that version is found."""

    NONE = "none"
    ETAG = "etag"
    """The version is the etag, which a manifest can contain."""
    LISTED = "listed"
    """Only a listing shows the version, and what proves after a crash that the rename took place."""


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """The properties in which stores differ; all lengths are in bytes of UTF-8."""

    listing_is_cheap: bool
    max_path_length: int
    max_name_length: int
    refused_characters: str = ""
    """What no name can have."""
    max_directory_items: int | None = None
    """The most files and directories that one directory can hold; None if there is no limit."""
    renames_are_local: bool = False
    """The kernel of one machine renames, so more processes gain nothing."""
    has_directories: bool = True
    """A file needs its parent directory. If False, `mkdirs` leaves a mark, and only a job's own
    directories are made."""
    deletes_trees: bool = False
    """A directory is deleted with its content by one request, or by a few that each end in time, unless
    it is on a network file system. If False, each name below it needs a request."""
    rename_makes_parents: bool = False
    """A rename makes missing parents of its destination. If False, it is refused, as it should be."""
    versions: Versions = Versions.NONE
    risk: str | None = None
    """The risk of the store, in words that every commit's report repeats; None for a safe store."""


class StoreOperations(ABC):
    """One store, used by many threads: subclass it. A class without a method that each store must have
    cannot be instantiated. Every other one has a default that is right for stores without it, or that
    raises ``OSError`` with ``ENOTSUP`` and changes nothing."""

    spec: StoreSpec
    capabilities: StoreCapabilities

    def has(self, operation: Callable[..., Any]) -> bool:
        """Return whether the store has an operation, such as `StoreOperations.sync`, of its own. A
        default needs no such question, but some work can be spared."""
        return getattr(type(self), operation.__name__) is not operation

    @operation("op_get_file_status", required=True)
    def get_status(self, path: str) -> FileStatus | None:
        """Describe `path`; None if nothing is there."""
        raise NotImplementedError

    @operation("op_list_status", required=True)
    def list_status(self, path: str) -> list[FileStatus]:
        """List a directory in no order; ``FileNotFoundError`` if there is none."""
        raise NotImplementedError

    @operation("op_list_status")
    def list_page(self, path: str) -> list[FileStatus] | None:
        """`list_anew` by one request that shows all names as they are at one moment; None if none does,
        or if the directory has more names than one request shows."""
        return None

    @operation("op_list_status")
    def find_names(self, path: str, names: Collection[str]) -> list[FileStatus] | None:
        """Describe which of the `names` are in a directory, in no order; None if one request does not
        show that. Errors as `list_status`, unless the store has no directories."""
        return None

    @operation("op_list_files", required=True)
    def list_files(self, path: str) -> list[FileStatus]:
        """List all files below a directory, however deep, in no order; empty if it is not there."""
        raise NotImplementedError

    @operation("op_list_files")
    def list_files_page(self, path: str, after: str | None = None) -> FilePage:
        """`list_files`, a page by one request; a store without it lists one directory at a time."""
        return FilePage(self.list_files(path))

    @operation("op_open", required=True)
    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""
        raise NotImplementedError

    @operation("op_create", required=True)
    def write(self, path: str, data: bytes) -> None:
        """Create or truncate a file in an existing directory; not atomic: for temporary names only."""
        raise NotImplementedError

    def write_once(self, path: str, data: bytes) -> None:
        """`write`, but never repeated, so that no request is carried out later: `StoreUnavailableError`
        if the store does not answer. Then the caller uses another name."""
        self.write(path, data)

    @operation("op_mkdirs", required=True)
    def mkdirs(self, path: str) -> None:
        """Make a directory and its parents; idempotent. ``FileExistsError`` names a file in the way."""
        raise NotImplementedError

    @operation("op_rename", paths=2, once=True)
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        """Rename a file atomically; never replaces, never copies, and never creates parents, unless the
        store's capabilities say so. ``FileExistsError`` if `dest` exists, or if the store has versions
        and `source` is another than `version`; ``FileNotFoundError`` if `source` or the parent of `dest`
        does not exist."""
        raise unsupported("rename", source)

    @operation("op_rename", paths=2, once=True)
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        """Rename a file atomically, like `rename`, but replace the file at `dest` if there is one.

        With `old`, only that version of `dest` is replaced. If the store has versions and another one is
        there, both files stay: ``FileExistsError``. If nothing is at `dest`, it is that error or
        ``FileNotFoundError``. A store without versions ignores `old`.
        """
        raise unsupported("replace", source)

    @operation("op_open", required=True)
    def read_state(self, path: str) -> StoredState | None:
        """Return the state that is kept at `path`; None if there is none."""
        raise NotImplementedError

    @operation("op_rename", paths=3, once=True, required=True)
    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        """Replace the state `old` by the state `text`, which was never used before, in one step.

        If several callers pass the same `old`, only one succeeds; the others get ``FileNotFoundError``
        or ``FileExistsError``. Without `old`, which needs a store that does not move directories,
        there must be no state yet. If the store moves directories, a state is the only name with
        `STATE_SUFFIX` in the directory `path`, and this is a plain rename that consumes it. On other
        stores a state is an object.
        """
        raise NotImplementedError

    @operation("op_delete", required=True)
    def delete_file(self, path: str) -> bool:
        """Delete a file; False if it was not there."""
        raise NotImplementedError

    @operation("op_delete_dir", required=True)
    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all it holds; False if it was not there."""
        raise NotImplementedError

    @operation("op_delete", required=True)
    def remove_empty_directory(self, path: str) -> bool:
        """Remove a directory; False if it was not there or is not empty."""
        raise NotImplementedError

    @operation("op_hsync")
    def sync(self, path: str) -> None:
        """Force the content of a file, or the names in a directory, to disk; nothing on a store that
        acknowledges only what is there."""

    @operation("op_rename", paths=2, once=True)
    def move_directory(self, source: str, dest: str) -> None:
        """Rename a directory with all it holds; ``FileExistsError`` if `dest` is there and not empty."""
        raise unsupported("move_directory", source)

    @operation("op_rename", paths=2, once=True)
    def move_whole(self, source: str, dest: str) -> None:
        """Rename a directory with all it holds to a name where nothing is, not even an empty directory;
        never into one, and never by copies. ``FileExistsError`` if anything is at `dest`,
        ``FileNotFoundError`` if `source` or the parent of `dest` is missing. ``ENOTSUP`` where this
        cannot be done, or where a client that has opened a file by its directory could still rename it
        after the move; then nothing has changed."""
        raise unsupported("move_whole", source)

    @operation("op_get_file_status", kernel_answers=True)
    def rights_below(self, path: str) -> str | None:
        """Return the rights that `mkdirs` gives to a directory in the existing directory `path`; None if
        that is not known, if access lists decide it, or if nothing is there."""
        return None

    @operation("op_rename", paths=2, once=True)
    def set_aside(self, path: str, place: str) -> None:
        """Rename a file, with what the store keeps for it, to `place`, a name that nothing else uses.

        ``FileNotFoundError``, with nothing done, if the file or the directory of `place` is missing. A
        file at `place` is replaced, or the call is refused: ``FileExistsError``.
        """
        raise unsupported("set_aside", path)

    @operation("op_delete")
    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete a version of a file; ``FileExistsError`` if another version is there, that or False if
        nothing is there. A store with versions, or one that does not move directories, has it."""
        raise unsupported("delete_version", path)

    @operation("op_delete_dir")
    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        """List everything below some directories; then, if `holds`, which makes its own requests,
        returns True, delete it and them. Files that are written there after the listing stay. Returns
        the answer of `holds`; idempotent. A store that does not move directories has it."""
        raise unsupported("delete_listed", directories[0])

    @operation("op_create")
    def begin_file(self, path: str) -> str:
        """Begin a file at `path`, in place of any other; return what names it in `append_part`."""
        raise unsupported("begin_file", path)

    @operation("op_create")
    def append_part(self, path: str, file: str, start: int, data: bytes, *, is_last: bool) -> None:
        """Append the bytes that begin at `start`, at least one; idempotent. Parts are appended in their
        order. All but the last have a multiple of 256 KiB; the file is complete after the last one."""
        raise unsupported("append_part", path)

    @operation("op_create")
    def check_conditions(self, path: str) -> None:
        """Check, on objects beside `path`, that the server does what a commit relies on; once a store.

        `StoreRefusedError` if it ignores conditions. It is called before a job gets its first state."""

    @operation("op_create", once=True)
    def create(self, path: str, data: bytes) -> None:
        """Write a file in one step; ``FileExistsError``, with nothing done, if one is there."""
        raise unsupported("create", path)

    @operation("op_create")
    def begin_upload(self, path: str, stamp: str | None) -> str:
        """Begin an upload of a file, with the job's `stamp` in its metadata; return its id."""
        raise unsupported("begin_upload", path)

    @operation("op_create")
    def put_part(self, path: str, upload: str, number: int, data: bytes) -> str:
        """Upload a part, from number 1 on, and return its etag; idempotent."""
        raise unsupported("put_part", path)

    @operation("op_rename", once=True)
    def publish(self, action: CompleteUpload, old: str | None = None) -> Answer:
        """Put a file in place where none is or, with `old`, in the place of that version; NO_UPLOAD or
        DONE if that was done before. ``OSError`` for a request that is never carried out."""
        raise unsupported("publish", action.dest)

    @operation("op_get_file_status")
    def is_pending(self, path: str, upload: str) -> bool:
        """Return whether an upload is neither completed nor aborted."""
        return False

    @operation("op_delete")
    def abort_upload(self, path: str, upload: str) -> None:
        """Abort an upload; nothing if it was aborted or completed before."""

    @operation("op_list_files")
    def list_uploads(self, path: str, after: tuple[str, str] | None = None) -> UploadPage:
        """List a page of the pending uploads of all files below a directory, ordered by name."""
        return UploadPage([])

    @operation("op_list_files")
    def uploaded_parts(self, path: str, upload: str) -> UploadedParts | None:
        """Sum up the parts of an upload; None if it is not pending."""
        return None

    @operation("op_get_file_status")
    def abort_days(self, path: str) -> int | None:
        """Return after how many days a rule of the store aborts uploads below a directory; None if none
        does. ``PermissionError`` if the rules cannot be read."""
        return None

    @operation("op_list_status")
    def list_prefix(self, path: str) -> list[FileStatus]:
        """List the names in the directory of `path` that begin with its last element, in no order."""
        return [status for status in self.list_anew(parent(path)) if status.path.startswith(path)]

    @operation("op_list_status")
    def list_exact(self, path: str) -> list[FileStatus]:
        """`list_anew`, without directories that hold nothing, as some servers show; for few objects."""
        return self.list_anew(path)

    @operation("op_list_files")
    def list_objects(self, path: str) -> list[FileStatus]:
        """`list_files`, with the marks of directories, whose paths end in a slash."""
        return self.list_files(path)

    @operation("op_delete")
    def delete_objects(self, listed: Sequence[FileStatus]) -> None:
        """Delete objects as they were listed; one that is gone, or has changed, is left out, but some
        servers do not look whether it has changed."""
        raise unsupported("delete_objects", listed[0].path)

    def list_anew(self, path: str) -> list[FileStatus]:
        """`list_status`, but never from this machine's cache of a network file system."""
        if self.network_file_system(path) is not None:
            self.revalidate(path)
        return self.list_status(path)

    @operation("op_create")
    def revalidate(self, path: str) -> None:
        """Make the next listing of a directory show the changes of other machines, if permitted."""

    @operation(None)
    def network_file_system(self, path: str) -> str | None:
        """Return the type of the network file system that `path` is, or would be, on; None if none."""
        return None

    @operation(None)
    def first_link(self, paths: Iterable[str]) -> str | None:
        """Return the first of `paths` that is a symbolic link."""
        return None

    @operation(None)
    def real_path(self, path: str) -> str:
        """Return `path` with every symbolic link in it resolved, also if nothing is there yet: two names
        of one directory give one path."""
        return path

    @operation(None)
    def file_system(self, path: str) -> str:
        """Return the file system that `path` is on or, if it is not there, would be on. Nothing can be
        renamed from one to another."""
        return ""

    @operation("op_get_file_status", kernel_answers=True)
    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        """Say, by path, why no file of a directory can be renamed to below `home` or, if only some of
        its `files` cannot, why each of these cannot; empty if nothing shows that. One request."""
        return {}

    @operation(None)
    def check_renames(self, directory: str) -> None:
        """Try in a directory whether a file can be renamed, and never over another, where that depends
        on the file system. `StoreRefusedError` if it can neither be renamed that way nor linked."""

    @operation(None)
    def links_files(self, directory: str) -> bool:
        """Return whether files are renamed by a link and an unlink, which not every user may, as a
        change of a state has shown; then `check_renames`."""
        return False

    @operation(None)
    def denied_links(self, paths: Sequence[str]) -> list[str]:
        """Return the files among `paths` that this process has no permission to link."""
        return []

    @operation("op_get_file_status")
    def cost_warnings(self) -> list[str]:
        """Return a sentence for each setting of the store that makes commits more expensive, with a
        remedy, for the doctor. ``PermissionError`` if the settings are not readable."""
        return []

    @operation("op_get_file_status")
    def settings(self) -> BucketSettings | None:
        """Return what a bucket is set to; None if the store is not a bucket. Only the doctor asks."""
        return None


def unsupported(name: str, path: str) -> OSError:
    """Return the error of an operation that a store does not have."""
    return OSError(errno.ENOTSUP, f"the store has no operation {name}", path)


def file_pages(store: StoreOperations, path: str) -> Iterator[list[FileStatus]]:
    """All files below a directory, a page at a time."""
    places, page = PageTokens(path), store.list_files_page(path)
    yield page.files
    while page.after is not None:
        page = store.list_files_page(path, places.follow(page.after))
        yield page.files


_Operations = tuple[Callable[..., Any], ...]
_COMPLETES_UPLOADS: _Operations = (
    StoreOperations.publish,
    StoreOperations.begin_upload,
    StoreOperations.put_part,
    StoreOperations.create,
    StoreOperations.is_pending,
    StoreOperations.abort_upload,
    StoreOperations.list_uploads,
    StoreOperations.uploaded_parts,
    StoreOperations.delete_objects,
)
_RENAMES: _Operations = (StoreOperations.rename, StoreOperations.replace)
_WRITES_PARTS: _Operations = (StoreOperations.begin_file, StoreOperations.append_part)


def missing_operations(store: StoreOperations) -> list[str]:
    """Return the names of the operations without which those that the store has cannot be used."""
    has_uploads = any(map(store.has, _COMPLETES_UPLOADS))
    needed: list[Callable[..., Any]] = [*(_COMPLETES_UPLOADS if has_uploads else _RENAMES)]
    if not store.has(StoreOperations.move_directory):
        needed += (StoreOperations.delete_listed, StoreOperations.delete_version)
    elif store.capabilities.versions is not Versions.NONE:
        needed.append(StoreOperations.delete_version)
    if any(map(store.has, _WRITES_PARTS)):
        needed += _WRITES_PARTS
    return [required.__name__ for required in needed if not store.has(required)]


def is_there(store: StoreOperations, listed: FileStatus) -> bool:
    """Whether what `StoreOperations.list_status` has shown is there; on a store without directories, a
    server that keeps objects as files can show directories whose objects are gone."""
    is_certain = not listed.is_directory or store.capabilities.has_directories
    return is_certain or store.get_status(listed.path) is not None


def only_there(store: StoreOperations, listed: Iterable[FileStatus]) -> list[FileStatus]:
    """What is there of what `StoreOperations.list_exact` has shown: on S3 it shows nothing else."""
    is_exact = store.has(StoreOperations.list_exact)
    return [status for status in listed if is_exact or is_there(store, status)]
