"""The files of one container with a hierarchical namespace, in memory: what each DFS call does to them.

As documented, and as Hadoop's ABFS relies on: a rename keeps the etag, makes no parents, moves a whole
directory at once, and honours conditions on both ends.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

_etags = itertools.count(0x8DD000000000000)


class DfsError(Exception):
    """An answer that is an error: its status, the service's code, and headers that go with it."""

    def __init__(self, status: int, code: str, **headers: str) -> None:
        super().__init__(status, code)
        self.status = status
        self.code = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(slots=True)
class Node:
    """A file, or a directory if it has `children`; `pending` is appended and not flushed."""

    children: dict[str, Node] | None = None
    data: bytes = b""
    pending: bytes = b""
    blocks: dict[str, bytes] = field(default_factory=dict)
    etag: str = field(default_factory=lambda: f"0x{next(_etags):X}")
    modified: float = field(default_factory=time.time)
    owner: str = "$superuser"
    group: str = "$superuser"
    permissions: str = "rwxr-x---"
    default_list: str = ""
    """The access list for what is made in a directory."""

    @property
    def is_directory(self) -> bool:
        return self.children is not None

    def made(self, *, is_directory: bool, mode: str = "rwxr-x---") -> Node:
        """What is made in this directory, with its group and its access list."""
        mode = "rwxr-x---+" if self.default_list else mode
        kept = self.default_list if is_directory else ""
        children: dict[str, Node] | None = {} if is_directory else None
        return Node(children, group=self.group, permissions=mode, default_list=kept)

    def put(self, data: bytes) -> None:
        """Give a file new content, and so another etag."""
        self.data, self.pending = data, b""
        self.etag, self.modified = f"0x{next(_etags):X}", time.time()


class Tree:
    """One container; paths have no leading slash, and "" is its root. Of a directory that is renamed,
    `rename_page` paths are checked by one request, and its files keep their etags if `keeps_etags`."""

    def __init__(self, *, delete_page: int = 1000) -> None:
        self.root = Node(children={})
        self.delete_page = delete_page
        self.rename_page: int | None = None
        self.keeps_etags = True

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in path.split("/") if path else ():
            node = node.children.get(name) if node and node.children is not None else None
        return node

    def get(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise DfsError(404, "PathNotFound")
        return node

    def file(self, path: str) -> Node:
        node = self.get(path)
        if node.is_directory:
            raise DfsError(409, "ResourceTypeMismatch")
        return node

    def create(
        self, path: str, *, is_directory: bool, if_none_match: str | None, mode: str = "rwxr-x---"
    ) -> Node:
        """Make a file or a directory, with `mode` unless an access list decides that, and its parents;
        without a condition, in the place of a file."""
        found = self.find(path)
        if found is not None and if_none_match == "*":
            kind = "directory" if found.is_directory else "file"
            raise DfsError(409, "PathAlreadyExists", x_ms_existing_resource_type=kind)
        if found is not None and found.is_directory:
            if not is_directory:
                raise DfsError(409, "ResourceTypeMismatch")
            return found
        above, _, name = path.rpartition("/")
        children = self._parent(path, make=True)
        children[name] = self.get(above).made(is_directory=is_directory, mode=mode)
        return children[name]

    def append(self, path: str, position: int, data: bytes) -> None:
        node = self.file(path)
        if position != len(node.data) + len(node.pending):
            raise DfsError(400, "InvalidAppendPosition")
        node.pending += data

    def flush(self, path: str, position: int) -> Node:
        node = self.file(path)
        if position != len(node.data) + len(node.pending):
            raise DfsError(400, "InvalidFlushPosition")
        node.put(node.data + node.pending)
        return node

    def rename(
        self,
        source: tuple[Tree, str],
        dest: str,
        *,
        source_if_match: str | None,
        if_match: str | None,
        if_none_match: str | None,
    ) -> tuple[Node, str]:
        """Rename a file, or a directory with all it holds, or answer a continuation first."""
        tree, path = source
        node = tree.find(path)
        if node is None or not path:
            raise DfsError(404, "SourcePathNotFound")
        if source_if_match not in (None, "*", f'"{node.etag}"'):
            raise DfsError(412, "SourceConditionNotMet")
        there = self.find(dest)
        if there is not None and if_none_match == "*":
            raise DfsError(409, "PathAlreadyExists")
        if if_match is not None and (there is None or if_match not in ("*", f'"{there.etag}"')):
            raise DfsError(412, "ConditionNotMet")
        if (f"{dest}/").startswith(f"{path}/"):
            raise DfsError(409, "InvalidRenameSourcePath")
        if there is not None and (there.is_directory or node.is_directory):
            raise DfsError(409, "InvalidDestinationPath")
        try:
            children = self._parent(dest, make=False)
        except DfsError as e:
            if e.status != 404:
                raise
            raise DfsError(404, "RenameDestinationParentPathNotFound") from e
        below = [each for _, each in tree.walk(path)] if node.is_directory else []
        if self.rename_page is not None and len(below) > self.rename_page:
            return node, str(self.rename_page)
        children[dest.rpartition("/")[2]] = node
        del tree._parent(path, make=False)[path.rpartition("/")[2]]
        for each in () if self.keeps_etags else below:
            each.put(each.data)
        return node, ""

    def delete(
        self, path: str, *, recursive: bool, paginated: bool, continuation: str, if_match: str | None
    ) -> str:
        """Delete; with many paths in a directory, answer a continuation first: their ACLs take time."""
        node = self.get(path)
        if if_match not in (None, "*", f'"{node.etag}"'):
            raise DfsError(412, "ConditionNotMet")
        if node.children and not recursive:
            raise DfsError(409, "DirectoryNotEmpty")
        if paginated:
            checked = int(continuation or 0) + self.delete_page
            if checked < sum(1 for _ in self.walk(path)):
                return str(checked)
        del self._parent(path, make=False)[path.rpartition("/")[2]]
        return ""

    def list(
        self, directory: str, *, recursive: bool, limit: int, continuation: str
    ) -> tuple[list[tuple[str, Node]], str]:
        """A page of what is in or below a directory, in order, and where the next one begins."""
        if not self.get(directory).is_directory:
            raise DfsError(409, "PathConflict")
        below = self.walk(directory) if recursive else self._children(directory)
        found = sorted(((path, node) for path, node in below if path > continuation), key=_path)
        page = found[:limit]
        return page, page[-1][0] if len(found) > limit else ""

    def walk(self, directory: str) -> Iterator[tuple[str, Node]]:
        """All that is below a directory."""
        for path, node in self._children(directory):
            yield path, node
            if node.is_directory:
                yield from self.walk(path)

    def _children(self, directory: str) -> Iterator[tuple[str, Node]]:
        for name, node in list((self.get(directory).children or {}).items()):
            yield (f"{directory}/{name}" if directory else name), node

    def _parent(self, path: str, *, make: bool) -> dict[str, Node]:
        """The children of the directory of `path`, made if wanted."""
        node = self.root
        for name in path.split("/")[:-1]:
            if node.children is None:
                break
            if name not in node.children and make:
                node.children[name] = node.made(is_directory=True)
            if name not in node.children:
                raise DfsError(404, "PathNotFound")
            node = node.children[name]
        if node.children is None:
            raise DfsError(409, "PathConflict")
        return node.children


def _path(found: tuple[str, Node]) -> str:
    return found[0]
