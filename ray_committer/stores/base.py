"""The operations that a commit needs from a store, and what a store must guarantee.

Paths are decoded and absolute (``/bucket-relative/or/file-system/path``). Errors are Python's own:
``FileNotFoundError``, ``FileExistsError``, ``NotADirectoryError``, ``PermissionError``; `ThrottledError`
when the store did nothing and wants fewer requests, `StoreUnavailableError` when it did not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, cast, runtime_checkable

from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.recovery import Observation
from ray_committer.stores.answers import PageTokens

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


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file or directory as the store lists it.

    A symbolic link (`is_link`) has its own size and time, and is a directory if it leads to one. A
    rename keeps `etag` and `file_id`. `version` identifies this content at this place: a rename, a
    replacement and a deletion can be bound to it. `stamp` is that of the job whose upload made the file,
    if its metadata has one; no listing shows it.
    """

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
    has_links: bool = False
    """A name can be a symbolic link, which leads out of its directory: the store `SeesLinks`."""
    spans_file_systems: bool = False
    """A directory can be on another file system than its parent, and nothing can be renamed from one to
    the other: the store `SeesFileSystems`."""
    may_be_network: bool = False
    """A directory can be on a network file system, whose listings a machine caches for a while: the
    store `Revalidates`."""
    has_directories: bool = True
    """A file needs its parent directory. If False, `mkdirs` leaves a mark, and only a job's own
    directories are made."""
    moves_directories: bool = True
    """A directory is renamed with its content in one step: the store `MovesDirectories`. If False, the
    store can put an object in place only if none is there, or only if a certain version is there."""
    deletes_trees: bool = False
    """A directory is deleted with its content by one request, or by a few that each end in time, unless
    it is on a network file system. If False, each name below it needs a request."""
    rename_makes_parents: bool = False
    """A rename makes missing parents of its destination. If False, it is refused, as it should be."""
    versions: Versions = Versions.NONE
    completes_uploads: bool = False
    """Nothing can be renamed: a task's files are uploads, which a commit completes, and a write is
    atomic. The store `CompletesUploads`; `rename` and `replace` are refused."""
    may_link_files: bool = False
    """If no rename can keep an existing file, a file is linked and unlinked instead, for which not every
    user has permission: the store `LinksFiles`."""
    writes_parts: bool = False
    """A large file is written in parts: the store `WritesParts`."""
    sets_aside: bool = False
    """A file can be renamed into a directory, which fails if that is gone: the store `SetsAside`."""
    checks_removals: bool = False
    """The store shows whether files can be taken out of their directory: the store `ChecksRemovals`."""
    needs_sync: bool = False
    """A power cut loses acknowledged changes that were not forced to disk: the store `Syncs`."""
    risk: str | None = None
    """The risk of the store, in words that every commit's report repeats; None for a safe store."""


class StoreOperations(Protocol):
    """One store, used by many threads."""

    spec: StoreSpec
    capabilities: StoreCapabilities

    def get_status(self, path: str) -> FileStatus | None:
        """Describe `path`; None if nothing is there."""

    def list_status(self, path: str) -> list[FileStatus]:
        """List a directory in no order; ``FileNotFoundError`` if there is none."""

    def list_files(self, path: str) -> list[FileStatus]:
        """List all files below a directory, however deep, in no order; empty if it is not there."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""

    def write(self, path: str, data: bytes) -> None:
        """Create or truncate a file in an existing directory; not atomic: for temporary names only."""

    def mkdirs(self, path: str) -> None:
        """Make a directory and its parents; idempotent. ``FileExistsError`` names a file in the way."""

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        """Rename a file atomically; never replaces, never copies, and never creates parents, unless the
        store's capabilities say so.

        ``FileExistsError`` if `dest` exists, ``FileNotFoundError`` if `source` or the parent of
        `dest` does not. If the store has versions and `source` is another than `version`, it stays where
        it is: ``FileExistsError``.
        """

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        """Rename a file atomically, like `rename`, but replace the file at `dest` if there is one.

        With `old`, only that version of `dest` is replaced. If the store has versions and another one is
        there, both files stay: ``FileExistsError``. If nothing is at `dest`, it is that error or
        ``FileNotFoundError``. A store without versions ignores `old`.
        """

    def read_state(self, path: str) -> StoredState | None:
        """Return the state that is kept at `path`; None if there is none."""

    def advance(self, path: str, seen: StoredState | None, text: str) -> StoredState:
        """Replace the state `seen` by the state `text`, which was never used before, in one step.

        If several callers pass the same `seen`, only one succeeds; the others get ``FileNotFoundError``
        or ``FileExistsError``. Without `seen`, which needs a store that does not move directories,
        there must be no state yet. If the store moves directories, a state is the only name with
        `STATE_SUFFIX` in the directory `path`, and this is a plain rename that consumes it. On other
        stores a state is an object.
        """

    def delete_file(self, path: str) -> bool:
        """Delete a file; False if it was not there."""

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all it holds; False if it was not there."""

    def remove_empty_directory(self, path: str) -> bool:
        """Remove a directory; False if it was not there or is not empty."""


@runtime_checkable
class RepeatsWrites(Protocol):
    """A store that repeats a write that got no answer; the first one may be carried out later."""

    def write_once(self, path: str, data: bytes) -> None:
        """`write`, but `StoreUnavailableError` if the store does not answer."""


def write_once(store: StoreOperations, path: str, data: bytes) -> None:
    """`StoreOperations.write`, but `StoreUnavailableError` if the store does not answer: then the caller
    uses another name."""
    write = store.write_once if isinstance(store, RepeatsWrites) else store.write
    write(path, data)


class Syncs(Protocol):
    """A store that acknowledges changes that are not on disk yet; its capabilities say `needs_sync`."""

    def sync(self, path: str) -> None:
        """Force the content of a file, or the names in a directory, to disk."""


def sync(store: StoreOperations, path: str) -> None:
    """Force a file, or the names in a directory, to disk; do nothing on a store without `needs_sync`."""
    if store.capabilities.needs_sync:
        cast("Syncs", store).sync(path)


class MovesDirectories(Protocol):
    """A store that renames a directory in one step; its capabilities say `moves_directories`."""

    def move_directory(self, source: str, dest: str) -> None:
        """Rename a directory with all it holds; ``FileExistsError`` if `dest` is there and not empty."""


def move_directory(store: StoreOperations, source: str, dest: str) -> None:
    """Rename a directory with all it holds, on a store that can."""
    cast("MovesDirectories", store).move_directory(source, dest)


class SetsAside(Protocol):
    """A store that renames a file out of the way in one step; its capabilities say `sets_aside`."""

    def set_aside(self, path: str, place: str) -> None:
        """Rename a file, with what the store keeps for it, to `place`, a name that nothing else uses.

        ``FileNotFoundError``, with nothing done, if the file or the directory of `place` is missing. A
        file at `place` is replaced, or the call is refused: ``FileExistsError``.
        """


def set_aside(store: StoreOperations, path: str, place: str) -> None:
    """Rename a file out of the way, on a store that can."""
    cast("SetsAside", store).set_aside(path, place)


class DeletesVersions(Protocol):
    """A store with `versions`, or one that does not move directories: it can delete a file only if it is
    a certain version."""

    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete a version of a file; ``FileExistsError`` if another version is there, that or False if
        nothing is there."""


def delete_version(store: StoreOperations, path: str, version: str | None) -> bool:
    """Delete a version of a file, on a store that can."""
    return cast("DeletesVersions", store).delete_version(path, version)


class DeletesListed(Protocol):
    """A store that does not move directories: it deletes a job's directories if a condition holds."""

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        """List everything below some directories; then, if `holds` returns True, delete it and them.

        Files that are written there after the listing stay. Returns the answer of `holds`; idempotent.
        """


def delete_listed(store: StoreOperations, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
    """Delete directories and their content if `holds` is true after a listing, on a store that can."""
    return cast("DeletesListed", store).delete_listed(directories, holds)


def list_there(store: StoreOperations, path: str) -> list[FileStatus]:
    """`list_anew`, but a directory that is listed is there, also on a server of S3 that keeps objects as
    files: it shows directories whose objects are gone. For directories with few objects."""
    if store.capabilities.completes_uploads:
        return completing(store).list_exact(path)
    return list_anew(store, path)


def is_there(store: StoreOperations, listed: FileStatus) -> bool:
    """Whether what `StoreOperations.list_status` has shown is there; on a store without directories, a
    server that keeps objects as files can show directories whose objects are gone."""
    is_certain = not listed.is_directory or store.capabilities.has_directories
    return is_certain or store.get_status(listed.path) is not None


def only_there(store: StoreOperations, listed: Iterable[FileStatus]) -> list[FileStatus]:
    """What is there of what `list_there` has shown: on S3 it shows nothing else."""
    is_exact = store.capabilities.completes_uploads
    return [one for one in listed if is_exact or is_there(store, one)]


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that is neither completed nor aborted: where its file will be, when it began, and by
    whom, as the store names users."""

    path: str
    id: str
    began_milliseconds: int | None = None
    began_by: str | None = None


@dataclass(frozen=True, slots=True)
class UploadPage:
    """A page of a listing of uploads; `after` is where the next page begins, None after the last one."""

    uploads: list[PendingUpload]
    after: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class UploadedParts:
    """The size of the parts of an upload so far, and when the last one came; None if there is none."""

    bytes: int = 0
    newest_milliseconds: int | None = None


class WritesParts(Protocol):
    """A store to which a file is sent in parts; its capabilities say `writes_parts`."""

    def begin_file(self, path: str) -> str:
        """Begin a file at `path`, in place of any other; return what names it in `append_part`."""

    def append_part(self, path: str, file: str, start: int, data: bytes, *, is_last: bool) -> None:
        """Append the bytes that begin at `start`, at least one; idempotent.

        Parts are appended in their order. All but the last have a multiple of 256 KiB; the file is
        complete after the last one."""


def writing_parts(store: StoreOperations) -> WritesParts:
    """Return the store as one to which files are sent in parts; its capabilities must say so."""
    return cast("WritesParts", store)


class CompletesUploads(Protocol):
    """A store on which a file is an upload until it is completed; its capabilities say
    `completes_uploads`."""

    def check_conditions(self, path: str) -> None:
        """Check, on objects beside `path`, that the server does what a commit relies on; once a store.

        `StoreRefusedError` if it ignores conditions. It is called before a job gets its first state."""

    def create(self, path: str, data: bytes) -> None:
        """Write a file in one step; ``FileExistsError``, with nothing done, if one is there."""

    def begin_upload(self, path: str, stamp: str | None) -> str:
        """Begin an upload of the file at `path`, with the job's `stamp` in its metadata; return its id.

        Nobody sees the file before the upload is completed."""

    def put_part(self, path: str, upload: str, number: int, data: bytes) -> str:
        """Upload a part, from number 1 on, and return its etag; idempotent."""

    def publish(self, action: CompleteUpload, old: str | None = None) -> Answer:
        """Put a file in place where none is or, with `old`, in the place of that version.

        An upload that was completed by a request without an answer gives NO_UPLOAD or DONE. ``OSError``
        for a request that the store will never carry out.
        """

    def is_pending(self, path: str, upload: str) -> bool:
        """Return whether an upload is neither completed nor aborted."""

    def abort_upload(self, path: str, upload: str) -> None:
        """Abort an upload; nothing if it was aborted or completed before."""

    def list_uploads(self, path: str, after: tuple[str, str] | None = None) -> UploadPage:
        """List a page of the pending uploads of all files below a directory, ordered by name."""

    def uploaded_parts(self, path: str, upload: str) -> UploadedParts | None:
        """Sum up the parts of an upload; None if it is not pending."""

    def abort_days(self, path: str) -> int | None:
        """Return after how many days a rule of the store aborts uploads below a directory; None if none
        does. ``PermissionError`` if the rules cannot be read."""

    def list_prefix(self, path: str) -> list[FileStatus]:
        """List the names in the directory of `path` that begin with its last element, in no order."""

    def list_exact(self, path: str) -> list[FileStatus]:
        """`list_status`, without directories that hold nothing: some servers show those that did."""

    def list_objects(self, path: str) -> list[FileStatus]:
        """`list_files`, with the marks of directories, whose paths end in a slash."""

    def delete_objects(self, listed: Sequence[FileStatus]) -> None:
        """Delete objects as they were listed; one that is gone, or has changed, is left out, but some
        servers do not look whether it has changed."""


def completing(store: StoreOperations) -> CompletesUploads:
    """Return the store as one that completes uploads; its capabilities must say so."""
    return cast("CompletesUploads", store)


def upload_pages(store: StoreOperations, path: str) -> Iterator[list[PendingUpload]]:
    """The pending uploads of all files below a directory, a page at a time; none on a store with
    renames."""
    after: tuple[str, str] | None = None
    places = PageTokens(path)
    while store.capabilities.completes_uploads:
        page = completing(store).list_uploads(path, after)
        yield page.uploads
        if page.after is None:
            return
        after = places.follow(page.after)


def pending_uploads(store: StoreOperations, path: str) -> Iterator[PendingUpload]:
    """The pending uploads of all files below a directory; none on a store with renames."""
    for page in upload_pages(store, path):
        yield from page


def has_uploads(store: StoreOperations, path: str) -> bool:
    """Return whether uploads of files below a directory are pending; False on a store with renames."""
    return store.capabilities.completes_uploads and bool(completing(store).list_uploads(path).uploads)


class SeesLinks(Protocol):
    """A store with symbolic links; its capabilities say `has_links`."""

    def first_link(self, paths: Iterable[str]) -> str | None:
        """Return the first of `paths` that is a link; the kernel answers, so it is not a request."""

    def real_path(self, path: str) -> str:
        """Return `path` with every link in it resolved, also if nothing is there yet; not a request."""


def first_link(store: StoreOperations, paths: Iterable[str]) -> str | None:
    """Return the first of `paths` that is a symbolic link; None on a store without links."""
    return cast("SeesLinks", store).first_link(paths) if store.capabilities.has_links else None


def real_path(store: StoreOperations, path: str) -> str:
    """Return `path` with every symbolic link resolved: two names of one directory give one path."""
    return cast("SeesLinks", store).real_path(path) if store.capabilities.has_links else path


class SeesFileSystems(Protocol):
    """A store of several file systems; its capabilities say `spans_file_systems`."""

    def file_system(self, path: str) -> str:
        """Return the file system that `path` is on or, if it is not there, would be on; the kernel
        answers, so it is not a request."""


def file_system(store: StoreOperations, path: str) -> str:
    """Return the file system that `path` is on, or would be on, on a store of several."""
    return cast("SeesFileSystems", store).file_system(path)


class ChecksRemovals(Protocol):
    """A store that shows what cannot be taken out of its directory; its capabilities say
    `checks_removals`."""

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        """Say, by path, why no file of a directory can be renamed to below `home` or, if only some of
        its `files` cannot, why each of these cannot; empty if nothing shows that.

        One request for all of it, or none if the kernel answers. It changes nothing."""


def what_stays(
    store: StoreOperations, directory: str, files: Sequence[str], home: str
) -> dict[str, str]:
    """Say what cannot be renamed to below `home`, by path, and why, on a store that shows it."""
    return cast("ChecksRemovals", store).what_stays(directory, files, home)


class LinksFiles(Protocol):
    """A store that may have to rename by a link and an unlink; its capabilities say `may_link_files`."""

    def check_renames(self, directory: str) -> None:
        """Try in a directory whether a file can be renamed, and never over another; not a request.

        `StoreRefusedError` if it can neither be renamed that way nor linked.
        """

    def links_files(self, directory: str) -> bool:
        """Return whether it does, as far as this process has learned it from a change of a state; then
        `check_renames`."""

    def denied_links(self, paths: Sequence[str]) -> list[str]:
        """Return those of some files that this process has no permission to link; the kernel answers, so
        it is not a request."""


def check_renames(store: StoreOperations, directory: str) -> None:
    """Try whether files can be renamed, on a store on which that depends on the file system."""
    if store.capabilities.may_link_files:
        cast("LinksFiles", store).check_renames(directory)


def links_files(store: StoreOperations, directory: str) -> bool:
    """Return whether files are renamed by a link and an unlink, as far as that is known."""
    return store.capabilities.may_link_files and cast("LinksFiles", store).links_files(directory)


def denied_links(store: StoreOperations, paths: Sequence[str]) -> list[str]:
    """Return those of some files that this process has no permission to link, on a store that links."""
    return cast("LinksFiles", store).denied_links(paths)


class Revalidates(Protocol):
    """A store whose file systems can be network file systems; its capabilities say `may_be_network`."""

    def network_file_system(self, path: str) -> str | None:
        """Return the type of the network file system that `path` is on, or would be on; None if that is
        not a network file system. The kernel answers, so it is not a request."""

    def revalidate(self, path: str) -> None:
        """Make the next listing of the directory `path` show the changes of other machines; do nothing
        if that is not permitted."""


def network_file_system(store: StoreOperations, path: str) -> str | None:
    """Return the type of the network file system that `path` is on, or would be on; None if none."""
    if not store.capabilities.may_be_network:
        return None
    return cast("Revalidates", store).network_file_system(path)


def revalidate(store: StoreOperations, path: str) -> None:
    """Make the next listing of `path` show the changes of other machines, on a network file system."""
    cast("Revalidates", store).revalidate(path)


def list_anew(store: StoreOperations, path: str) -> list[FileStatus]:
    """`list_status`, but never from this machine's cache of a network file system."""
    if network_file_system(store, path) is not None:
        revalidate(store, path)
    return store.list_status(path)


class BucketSettings(Protocol):
    """What a bucket is set to, one request each; only ``ray-committer doctor`` asks for it.

    ``PermissionError`` if a setting cannot be read.
    """

    def encryption(self) -> str | None:
        """The encryption that new objects get, as the store names it; None if the bucket has none."""

    def versioning(self) -> str | None:
        """``Enabled`` or ``Suspended``; None if it was never switched on."""

    def locks_objects(self) -> bool:
        """Whether objects can be locked against their deletion."""

    def place(self) -> str:
        """The region to which requests are made, and the address of the server."""

    def clock_seconds(self) -> float | None:
        """How far the clock of the store is ahead of this machine's; None if it shows no time."""


@runtime_checkable
class HasBucketSettings(Protocol):
    """A store that is a bucket with settings."""

    def settings(self) -> BucketSettings:
        """Return what the bucket is set to."""


@runtime_checkable
class WarnsOfCosts(Protocol):
    """A store whose settings can make commits more expensive: soft delete, versioning, storage class.

    Optional. Only ``ray-committer doctor`` calls it, never a commit, so it can make some requests.
    """

    def cost_warnings(self) -> list[str]:
        """Return a sentence for each setting that costs more than it must, with a remedy; empty if none.

        ``PermissionError`` if the settings are not readable, which is not a failure.
        """
