"""The local file system, or one that all nodes mount.

Renames never replace (`ray_committer.stores.local_renames`). Hadoop's checksum files (``.name.crc``) are
neither listed beside their files nor left stale.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ray_committer.errors import StoreRefusedError, mark
from ray_committer.stores.base import (
    FileStatus,
    StoreCapabilities,
    StoredState,
    StoreOperations,
    StoreSpec,
    unsupported,
)
from ray_committer.stores.hdfs.protocol import UMASK, files_below, permissions
from ray_committer.stores.local_files import open_regular, read_regular
from ray_committer.stores.local_renames import rename_without_replacing, renamed_by_flag
from ray_committer.stores.local_rights import denied_links, has_access_list, process_umask, what_stays
from ray_committer.stores.network_files import LOOK_PREFIX, Mounts, look_anew, mount_of, remove_names
from ray_committer.stores.state_names import read_state_name, state_rename

_REMOVALS = 5
PAGE_BYTES = 32_768
"""The bytes of names that one request to the kernel returns: glibc's ``readdir`` asks for at least so
many, and the kernel holds the directory's lock meanwhile."""

_USUAL = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)

Rename = Callable[[str, str], None]


class LocalStore(StoreOperations):
    """`StoreOperations` on ``file://``; about 10 microseconds per rename. With the storage option
    ``fs.permissions.umask-mode``, new files and directories have Hadoop's modes, not the process's."""

    capabilities = StoreCapabilities(
        listing_is_cheap=True,
        max_path_length=4095,
        max_name_length=255,
        renames_are_local=True,
        deletes_trees=True,
    )

    def __init__(
        self, spec: StoreSpec, *, rename: Rename | None = None, mounts: Mounts | None = None
    ) -> None:
        self.spec = spec
        self._rename = rename or rename_without_replacing
        # Whether a rename is a link and an unlink here; the first change of a state shows it.
        self._links = rename not in (None, rename_without_replacing)
        self._mounts = mounts or Mounts()
        self._modes = permissions(spec.storage_options) if UMASK in spec.storage_options else None

    def get_status(self, path: str) -> FileStatus | None:
        try:
            return _status(path, os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list_status(self, path: str) -> list[FileStatus]:
        with _opened(path, os.O_RDONLY) as directory:
            return _statuses(path, os.listdir(directory), directory)

    def list_page(self, path: str) -> list[FileStatus] | None:
        if self.network_file_system(path) is not None:
            return None
        with _opened(path, os.O_RDONLY) as directory:
            names = os.listdir(directory)
            is_one = sum(map(_entry_bytes, names)) <= PAGE_BYTES
            return _statuses(path, names, directory) if is_one else None

    def find_names(self, path: str, names: Collection[str]) -> list[FileStatus] | None:
        if self.network_file_system(path) is not None:  # a name that is asked for can be in a cache
            return None
        with _opened(path, os.O_PATH) as directory:
            # Each is asked for and none is listed: two spellings of a name can be one here.
            listed = (_listed(path, name, directory) for name in names)
            return [status for status in listed if status is not None]

    def list_files(self, path: str) -> list[FileStatus]:
        return files_below(self.list_status, path)

    def read(self, path: str) -> bytes:
        return read_regular(path)

    def write(self, path: str, data: bytes) -> None:
        with open_regular(path) as file:
            if self._modes is not None:
                os.fchmod(file.fileno(), self._modes[0])
            file.write(data)

    def mkdirs(self, path: str) -> None:
        try:
            if self._modes is None:
                os.makedirs(path, exist_ok=True)
            else:
                _make_directories(path, self._modes[1])
        except (FileExistsError, NotADirectoryError) as e:
            if e.errno == errno.EEXIST and not os.path.lexists(e.filename):
                raise FileNotFoundError(errno.ENOENT, "was removed at the same time", e.filename) from e
            raise FileExistsError(errno.EEXIST, "a file is in the way", e.filename) from e

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        _remove_stale_checksum(dest)  # before the rename: a crash would leave it
        try:
            self._rename(source, dest)
        except FileNotFoundError:  # this machine may have cached that the directory was missing
            above = os.path.dirname(dest)
            if os.path.isdir(above) or self.network_file_system(above) is None:
                raise
            self.revalidate(above)
            self._rename(source, dest)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        _remove_checksum(dest)
        os.replace(source, dest)

    def read_state(self, path: str) -> StoredState | None:
        return read_state_name(self.list_anew, path)

    def advance(self, path: str, old: StoredState | None, text: str) -> StoredState:
        """Rename the state; with a link and an unlink, two processes could each succeed with the link.
        Nothing has the new name, so a rename without replacing does the same, if there is one."""
        source, dest = state_rename(path, old, text)
        if self._links or not renamed_by_flag(source, dest):
            self._links = True
            os.rename(source, dest)
        return StoredState(text)

    def move_directory(self, source: str, dest: str) -> None:
        try:
            os.rename(source, dest)
        except OSError as e:
            if e.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, dest) from e
            raise

    def move_whole(self, source: str, dest: str) -> None:
        # A rename by a link keeps the directory of its source open, wherever that is by then.
        if self._rename is not rename_without_replacing or not self._mounts.moves_whole(source):
            raise unsupported("move_whole", source)
        if not renamed_by_flag(source, dest):
            raise unsupported("move_whole", source)

    def rights_below(self, path: str) -> str | None:
        umask = process_umask()
        if umask is None or has_access_list(path):
            return None
        with suppress(FileNotFoundError):
            above = os.stat(path)
            inherited = above.st_mode & stat.S_ISGID
            mode = 0o777 & ~umask if self._modes is None else self._modes[1]
            group = above.st_gid if inherited else os.getegid()
            return _rights(os.geteuid(), group, mode | inherited)
        return None

    def set_aside(self, path: str, place: str) -> None:
        """Rename a file to a name that is reserved for it; its checksum goes before that. It is renamed,
        too, before it is removed: by now it may belong to a file of a later job."""
        if os.path.isfile(checksum := _checksum_path(path)):
            with suppress(FileNotFoundError):
                os.rename(checksum, _checksum_path(place))
                _unlink(_checksum_path(place))
        with suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(path), os.lstat(place)):  # the kernel would keep both names
                _unlink(place)
        os.rename(path, place)

    def delete_file(self, path: str) -> bool:
        _remove_checksum(path)
        return _unlink(path)

    def delete_directory(self, path: str) -> bool:
        if not os.path.lexists(path):
            return False
        for tries_left in reversed(range(_REMOVALS)):
            try:
                shutil.rmtree(path, onerror=_unless_gone)
                break
            except OSError as e:  # another process has made a name there, for a fresh listing
                if e.errno != errno.ENOTEMPTY or not tries_left or not self.network_file_system(path):
                    raise
        return True

    def remove_empty_directory(self, path: str) -> bool:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return False
        except OSError as e:
            if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return self._remove_but_for_names(path)
        return True

    def sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as e:
            raise OSError(e.errno, f"cannot be forced to disk: {e.strerror}", path) from e
        finally:
            os.close(descriptor)

    def first_link(self, paths: Iterable[str]) -> str | None:
        return next(filter(os.path.islink, paths), None)

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def file_system(self, path: str) -> str:
        """Return device and mount (a bind mount keeps the device) of the nearest existing directory."""
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        opened = os.open(path, os.O_PATH | os.O_DIRECTORY)
        try:
            return f"{os.fstat(opened).st_dev} {mount_of(opened)}"
        finally:
            os.close(opened)

    def check_renames(self, directory: str) -> None:
        """Rename a file, and another one over it, which must be refused."""
        probe = f"{directory}/.rename-{uuid.uuid4().hex}"
        names = [f"{probe}-{number}" for number in range(3)]
        try:
            for name in names[:2]:
                self.write(name, b"")
            self._rename(names[0], names[2])
            with suppress(FileExistsError):
                self._rename(names[1], names[2])
                raise StoreRefusedError(
                    f"{mark(directory)}: a rename in this file system has replaced another file, "
                    "although it must not, so a commit could overwrite data",
                    "use another file system",
                )
        finally:
            for name in names:
                _unlink(name)

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        if os.path.isdir(directory) and self.file_system(directory) != self.file_system(home):
            return {directory: f"is on another file system or mount than {home}"}
        return what_stays(directory, files)

    def links_files(self, directory: str) -> bool:
        """Return whether files are renamed by a link and an unlink, as a change of a state has shown."""
        if self._links:
            self.check_renames(directory)
        return self._links

    def denied_links(self, paths: Sequence[str]) -> list[str]:
        return denied_links(paths)

    def network_file_system(self, path: str) -> str | None:
        return self._mounts.kind(path)

    def revalidate(self, path: str) -> None:
        look_anew(path)

    def _remove_but_for_names(self, path: str) -> bool:
        """Remove a directory on a network file system if it holds only names made for fresh listings."""
        try:
            if not self.network_file_system(path) or not remove_names(path):
                return False
            os.rmdir(path)
        except OSError as e:
            if e.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        return True


def _make_directories(path: str, mode: int) -> None:
    """Make a directory and its parents, each with `mode` and with the group bit that it inherits."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return
    except FileNotFoundError:
        _make_directories(os.path.dirname(path), mode)
        _make_directories(path, mode)
        return
    inherited = os.stat(path).st_mode & stat.S_ISGID
    os.chmod(path, mode | inherited)


@contextmanager
def _opened(path: str, how: int) -> Iterator[int]:
    """Open a directory, which stays the same if it is renamed."""
    directory = os.open(path, how | os.O_DIRECTORY)
    try:
        yield directory
    finally:
        os.close(directory)


def _entry_bytes(name: str) -> int:
    """The bytes that the kernel needs for a name in a listing (``linux_dirent64``), rounded up."""
    return len(os.fsencode(name)) + 27


def _statuses(path: str, names: list[str], directory: int) -> list[FileStatus]:
    """Describe all `names` in the open `directory`, without checksums; the list is emptied."""
    hidden = {name for name in names if name.startswith(".")}
    checksums = hidden.intersection(map(_checksum_of, names)) if hidden else hidden
    statuses = []
    while names:  # a name is no longer held once its status is
        name = names.pop()
        if name in hidden and (name in checksums or name.startswith(LOOK_PREFIX)):
            continue
        if (status := _listed(path, name, directory)) is not None:
            statuses.append(status)
    return statuses


def _listed(path: str, name: str, directory: int) -> FileStatus | None:
    """Return the status of a name in the open `directory`, which is at `path`; None if it is gone."""
    try:
        stated = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return _status(f"{path.rstrip('/')}/{name}", stated)
    except FileNotFoundError:
        return None
    except PermissionError as e:  # the error has only the name
        raise PermissionError(e.errno, e.strerror, os.path.join(path, name)) from e


def _status(path: str, stated: os.stat_result) -> FileStatus:
    kind = stat.S_IFMT(stated.st_mode)
    is_link = kind == stat.S_IFLNK
    if is_link:
        with suppress(OSError):  # it leads nowhere
            kind = stat.S_IFMT(os.stat(path).st_mode)
    return FileStatus(
        path=path,
        is_directory=kind == stat.S_IFDIR,
        is_link=is_link,
        size=stated.st_size,
        modified_milliseconds=stated.st_mtime_ns // 1_000_000,
        file_id=f"{stated.st_dev}:{stated.st_ino}",
        is_special=kind not in _USUAL,
        rights=_rights_of(stated) if kind == stat.S_IFDIR and not is_link else None,
    )


def _rights_of(stated: os.stat_result) -> str:
    # Access lists are not looked for: that would be one more call, or request, for each directory.
    return _rights(stated.st_uid, stated.st_gid, stat.S_IMODE(stated.st_mode))


def _rights(user: int, group: int, mode: int) -> str:
    return f"{user}:{group}:{mode:o}"


def _checksum_of(name: str) -> str:
    """Return Hadoop's name of a file's checksum; a checksum without its file counts as a file."""
    return f".{name}.crc"


def _checksum_path(path: str) -> str:
    head, _, name = path.rpartition("/")
    return f"{head}/{_checksum_of(name)}"


def _remove_checksum(path: str) -> None:
    """Remove Hadoop's checksum of a file; a file whose name is too long for one has none."""
    try:
        _unlink(_checksum_path(path))
    except OSError as e:
        if e.errno != errno.ENAMETOOLONG:
            raise


def _remove_stale_checksum(dest: str) -> None:
    """Remove the checksum of a file that was deleted without it; an existing file keeps its own."""
    checksum = _checksum_path(dest)
    # Asked first, since there is hardly ever one: an answer takes half the time of an exception.
    if not os.access(checksum, os.F_OK) or not os.path.isfile(checksum) or os.path.lexists(dest):
        return
    try:
        _unlink(checksum)
    except OSError as e:
        name = os.path.basename(checksum)
        what = f"the stale checksum {name} cannot be removed: {e.strerror}"
        raise OSError(e.errno, what, dest) from e


def _unless_gone(_: object, __: str, error: tuple[object, BaseException, object]) -> None:
    """Continue if another process, which deletes the same, was faster."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
