"""What a commit needs of a store, and what a store must promise for it.

Paths are decoded and absolute (``/bucket-relative/or/file-system/path``). Errors are Python's own:
``FileNotFoundError``, ``FileExistsError``, ``NotADirectoryError``, ``PermissionError``; `ThrottledError`
when the store did nothing and wants fewer requests, `StoreUnavailableError` when it did not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, cast, runtime_checkable

from ray_committer.protocol.recovery import Observation

STATE_SUFFIX = ".state"
"""How the name of a state ends, on a store that keeps it as a name."""


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """How any process opens the store: a URL's scheme and authority, and fsspec storage options."""

    scheme: str
    authority: str = ""
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False)  # may hold secrets


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One file or directory as the store lists it.

    A symbolic link (`is_link`) has its own size and time, and is a directory if it leads to one. `etag`
    and `file_id` stay what they are when the file is renamed; `version` tells this content at this place
    from any other, and a rename, a replacement and a deletion can be bound to it.
    """

    path: str
    is_directory: bool
    is_link: bool = False
    size: int = 0
    modified_milliseconds: int | None = None
    etag: str | None = None
    file_id: str | None = None
    version: str | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def observation(self) -> Observation:
        """What this status tells about the identity of the file."""
        return Observation(self.size, self.etag, self.modified_milliseconds, self.file_id)


@dataclass(frozen=True, slots=True)
class StoredState:
    """A state as it was read: its text, and on a store of objects the version that holds it."""

    text: str
    version: str | None = None


class Versions(StrEnum):
    """Whether a rename can be bound to the version of its source, and who knows that version."""

    NONE = "none"
    ETAG = "etag"
    """It is the etag that a manifest may give."""
    LISTED = "listed"
    """Only a listing tells it, and what proves after a crash that the rename took place."""


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """What differs between stores; all lengths in bytes of UTF-8."""

    listing_is_cheap: bool
    max_path_length: int
    max_name_length: int
    max_directory_items: int | None = None
    """How many files and directories one directory may hold; None if any number."""
    renames_are_local: bool = False
    """The kernel of one machine renames, so that more processes gain nothing."""
    has_links: bool = False
    """A name may be a symbolic link, which leads out of the directory that it is in: it `SeesLinks`."""
    spans_file_systems: bool = False
    """A directory may be on another file system than the one above it, and nothing is renamed from one
    to the other: it `SeesFileSystems`."""
    may_be_network: bool = False
    """A directory may be on a network file system, whose listings a machine keeps for a while: it
    `Revalidates`."""
    has_directories: bool = True
    """A file needs its parent directory. Without, `mkdirs` leaves a mark, and only a job's own
    directories are made."""
    moves_directories: bool = True
    """A directory with all it holds is renamed in one step: it `MovesDirectories`. A store without puts
    an object in place only if none is there, or only if it is a certain version."""
    deletes_trees: bool = False
    """A directory goes with all it holds by one request, or by few that each end in time, unless it is
    on a network file system; elsewhere each name below it is a request."""
    rename_makes_parents: bool = False
    """A rename makes the directories above its destination; elsewhere it is refused, as it should be."""
    versions: Versions = Versions.NONE
    may_link_files: bool = False
    """Where no rename leaves alone what is there, a file is linked and unlinked, which not everybody may
    do: it `LinksFiles`."""
    sets_aside: bool = False
    """A file can be renamed into a directory, and never is if that is gone: it `SetsAside`."""
    needs_sync: bool = False
    """What it has acknowledged is lost with the power until it is forced to disk: it `Syncs`."""
    risk: str | None = None
    """What may go wrong on it, in words that every commit's report repeats; None for a safe store."""


class StoreOperations(Protocol):
    """One store, used by many threads."""

    spec: StoreSpec
    capabilities: StoreCapabilities

    def get_status(self, path: str) -> FileStatus | None:
        """Describe `path`, or None if nothing is there."""

    def list_status(self, path: str) -> list[FileStatus]:
        """List a directory in no order; ``FileNotFoundError`` if there is none."""

    def list_files(self, path: str) -> list[FileStatus]:
        """List all files below a directory, however deep, in no order; none if there is no directory."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""

    def write(self, path: str, data: bytes) -> None:
        """Create or truncate a file in an existing directory; not atomic, so for temporary names."""

    def mkdirs(self, path: str) -> None:
        """Make a directory and its parents; idempotent. ``FileExistsError`` names a file in the way."""

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        """Rename a file atomically; never replaces, never copies, and never creates parents, unless its
        capabilities say so.

        ``FileExistsError`` if `dest` exists, ``FileNotFoundError`` if `source` or the parent of
        `dest` does not. Where the store has versions, any other than `version` of `source` stays where
        it is: ``FileExistsError``.
        """

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        """`rename` atomically over the file `dest`, which may exist.

        `old` is the version of `dest` that may be replaced. Where the store has versions, any other
        stays, and so does `source`: ``FileExistsError``; that or ``FileNotFoundError`` if nothing is at
        `dest`. A store without versions ignores `old`.
        """

    def read_state(self, path: str) -> StoredState | None:
        """The state that is kept at `path`; None if none is."""

    def advance(self, path: str, seen: StoredState | None, text: str) -> StoredState:
        """Put the state `text`, which never was before, in the place of `seen`, in one step.

        Of several that ask with one `seen` only one succeeds; the others get ``FileNotFoundError`` or
        ``FileExistsError``. Without `seen`, on a store that does not move directories, nothing may be
        there yet. Where directories are moved, a state is the one name with `STATE_SUFFIX` in the
        directory `path`, and this a plain rename that consumes it; elsewhere it is an object.
        """

    def delete_file(self, path: str) -> bool:
        """Delete a file; False if it was not there."""

    def delete_directory(self, path: str) -> bool:
        """Delete a directory with all it holds; False if it was not there."""

    def remove_empty_directory(self, path: str) -> bool:
        """Remove a directory; False if it was not there or is not empty."""


class Syncs(Protocol):
    """A store that acknowledges what is not on the disk yet; its capabilities say `needs_sync`."""

    def sync(self, path: str) -> None:
        """Force the content of a file, or the names in a directory, to disk."""


def sync(store: StoreOperations, path: str) -> None:
    """Force a file or the names in a directory to disk; nothing to do where an answer means that."""
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
        """Rename a file, with what the store keeps for it, to `place`, a name for it alone.

        ``FileNotFoundError``, with nothing done, if the file or the directory of `place` is not there;
        what is at `place` is replaced, or refused: ``FileExistsError``.
        """


def set_aside(store: StoreOperations, path: str, place: str) -> None:
    """Rename a file out of the way, on a store that can."""
    cast("SetsAside", store).set_aside(path, place)


class DeletesVersions(Protocol):
    """A store with `versions`, or one that does not move directories: it deletes a file only if it is a
    certain version."""

    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete a version of a file; ``FileExistsError`` if it is another, False or that if there is
        none."""


def delete_version(store: StoreOperations, path: str, version: str | None) -> bool:
    """Delete a version of a file, on a store that can."""
    return cast("DeletesVersions", store).delete_version(path, version)


class DeletesListed(Protocol):
    """A store that does not move directories: it deletes those of a job that is still the one meant."""

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        """List all that is below some directories and, if `holds` says so then, delete it with them.

        What is written below them after it was listed stays. Returns what `holds` did; idempotent.
        """


def delete_listed(store: StoreOperations, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
    """Delete what is below some directories, if `holds` once it is listed, on a store that can."""
    return cast("DeletesListed", store).delete_listed(directories, holds)


class SeesLinks(Protocol):
    """A store with symbolic links; its capabilities say `has_links`."""

    def first_link(self, paths: Iterable[str]) -> str | None:
        """The first of `paths` that is a link itself; the kernel answers, so it counts as no request."""

    def real_path(self, path: str) -> str:
        """`path` with every link in it resolved, also if nothing is there yet; likewise."""


def first_link(store: StoreOperations, paths: Iterable[str]) -> str | None:
    """The first of `paths` that is a symbolic link; None where a store has none."""
    return cast("SeesLinks", store).first_link(paths) if store.capabilities.has_links else None


def real_path(store: StoreOperations, path: str) -> str:
    """`path` with every symbolic link in it resolved: two names of one directory give one."""
    return cast("SeesLinks", store).real_path(path) if store.capabilities.has_links else path


class SeesFileSystems(Protocol):
    """A store of several file systems; its capabilities say `spans_file_systems`."""

    def file_system(self, path: str) -> str:
        """Which one `path` is on or, if it is not there, would be; the kernel answers, so it counts as
        no request."""


def file_system(store: StoreOperations, path: str) -> str:
    """Which file system `path` is on, or would be, on a store of several."""
    return cast("SeesFileSystems", store).file_system(path)


class LinksFiles(Protocol):
    """A store that may have to rename by a link and an unlink; its capabilities say `may_link_files`."""

    def links_files(self, directory: str) -> bool:
        """Whether it does, as far as a change of a state has told this process.

        `StoreRefusedError` if files cannot be linked either, which is tried in `directory`.
        """

    def denied_links(self, paths: Sequence[str]) -> list[str]:
        """Those of some files that this process may not link; the kernel answers, so it counts as no
        request."""


def links_files(store: StoreOperations, directory: str) -> bool:
    """Whether files are renamed by a link and an unlink, as far as that is known."""
    return store.capabilities.may_link_files and cast("LinksFiles", store).links_files(directory)


def denied_links(store: StoreOperations, paths: Sequence[str]) -> list[str]:
    """Those of some files that this process may not link, on a store that links."""
    return cast("LinksFiles", store).denied_links(paths)


class Revalidates(Protocol):
    """A store of file systems of which some are a network's; its capabilities say `may_be_network`."""

    def network_file_system(self, path: str) -> str | None:
        """The type of the network file system that `path` is on, or would be; None if it is on another
        one. The kernel answers, so it counts as no request."""

    def revalidate(self, path: str) -> None:
        """Let the next listing of the directory `path` show what other machines have done; nothing if
        that is not allowed."""


def network_file_system(store: StoreOperations, path: str) -> str | None:
    """The type of the network file system that `path` is on, or would be; None if it is on no such."""
    if not store.capabilities.may_be_network:
        return None
    return cast("Revalidates", store).network_file_system(path)


def revalidate(store: StoreOperations, path: str) -> None:
    """Let the next listing of `path` show what other machines have done, on a network file system."""
    cast("Revalidates", store).revalidate(path)


def list_anew(store: StoreOperations, path: str) -> list[FileStatus]:
    """`list_status`, but never what this machine remembers of a network file system."""
    if network_file_system(store, path) is not None:
        revalidate(store, path)
    return store.list_status(path)


@runtime_checkable
class WarnsOfCosts(Protocol):
    """A store whose own settings may make a commit dearer: soft delete, versioning, a storage class.

    Optional. ``ray-committer doctor`` asks for it, a commit never does, so it may make some requests.
    """

    def cost_warnings(self) -> list[str]:
        """What costs more than it must and how to change that, a sentence each; empty if nothing does.

        ``PermissionError`` if the settings may not be read, which is no failure.
        """
