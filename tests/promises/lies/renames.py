"""Stores whose renames and replacements are not what they must be."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ray_committer.protocol.paths import join
from ray_committer.testing import Identity, MemoryStore
from tests.promises.lies.lie import Lie


class ReplacesOnRename(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self.replace(source, dest, version)


class RefusesButReplaces(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        is_there = self.get_status(dest)
        self.replace(source, dest, version)
        if is_there:
            raise FileExistsError(errno.EEXIST, "exists", source)


class RefusesButCopies(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        with self._lock:
            if dest in self._files:
                self.write(dest, self.read(source))
            super().rename(source, dest, version)


class RemembersWhatIsMissing(MemoryStore):
    """As a client that looks before it renames, and keeps what it has seen."""

    def __init__(self, **kind: Any) -> None:
        super().__init__(**kind)
        self._seen: dict[str, bool] = {}

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        if self._seen.setdefault(dest, self.get_status(dest) is not None):
            raise FileExistsError(errno.EEXIST, "exists", source)
        self.replace(source, dest, version)


class IgnoresWhatItRefuses(MemoryStore):
    """As a client that overlooks the server's answer: no error, and nothing was done."""

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        with suppress(self.overlooked):
            super().rename(source, dest, version)

    overlooked: type[OSError] = FileExistsError


class IgnoresMissingParents(IgnoresWhatItRefuses):
    overlooked = FileNotFoundError


class RefusesButMakesParents(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        try:
            super().rename(source, dest, version)
        except FileNotFoundError:
            self.mkdirs(os.path.dirname(dest))
            raise


class MakesParents(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self.mkdirs(os.path.dirname(dest))
        super().rename(source, dest, version)


class EntersDirectories(MemoryStore):
    """As ``mv``."""

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        super().rename(source, self._into(source, dest), version)

    def move_directory(self, source: str, dest: str) -> None:
        super().move_directory(source, self._into(source, dest))

    def _into(self, source: str, dest: str) -> str:
        return join(dest, os.path.basename(source)) if dest in self._directories else dest


class RefusesButEnters(EntersDirectories):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        super().rename(source, dest, version)
        if dest in self._directories:
            raise FileExistsError(errno.EEXIST, "exists", source)


class LeavesTheSource(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        data = self.read(source)
        super().rename(source, dest, version)
        self.write(source, data)


class TearsOnRename(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        super().rename(source, dest, version)
        self._files[dest] = replace(self._files[dest], data=self._files[dest].data[:1])


class CopiesOnRename(MemoryStore):
    """What a copy and a delete do: the file is another one."""

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        data = self.read(source)
        super().rename(source, dest, version)
        self.write(dest, data)


class IgnoresVersions(MemoryStore):
    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        super().rename(source, dest)


class RefusesVersionsButMoves(MemoryStore):
    """As a client that repeats a request without its condition, and reports the first answer."""

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        try:
            super().rename(source, dest, version)
        except FileExistsError:
            if not self.get_status(dest):
                super().rename(source, dest)
            raise


class KeepsOneVersion(MemoryStore):
    def _version_of(self, file: Any) -> str | None:
        return "etag-of-all"


class NeverReplaces(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        self.rename(source, dest, version)


class ReplacesAnyVersion(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        super().replace(source, dest, version)


class RefusesVersionsButReplaces(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        try:
            super().replace(source, dest, version, old=old)
        except FileExistsError:
            super().replace(source, dest)
            raise


class ReplacesByAnyVersion(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        super().replace(source, dest, old=old)


class ReplacesWhatIsGone(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        super().replace(source, dest, version, old=old if dest in self._files else None)


class ReplacesNoVersion(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        if old is None or dest not in self._files or self._version_of(self._files[dest]) != old:
            super().replace(source, dest, version, old=old)


class ReplacesByCopy(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        self.write(dest, self.read(source))


class KeepsTheOldOnReplace(MemoryStore):
    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        self.delete_file(source)


_NEVER_REPLACES = {"rename never replaces", "one of many renames wins"}
_BOUND = {
    "rename is bound to a version",
    "replace is bound to a version",
    "delete is bound to a version",
}

LIES = [
    Lie(ReplacesOnRename, _NEVER_REPLACES),
    Lie(RefusesButReplaces, _NEVER_REPLACES),
    Lie(RefusesButCopies, _NEVER_REPLACES),
    Lie(RemembersWhatIsMissing, {"one of many renames wins"}),
    Lie(
        IgnoresWhatItRefuses,
        _NEVER_REPLACES | {"rename enters no directory"},
        Identity.MODIFICATION_TIME,
    ),
    Lie(
        IgnoresWhatItRefuses,
        _NEVER_REPLACES | {"rename enters no directory", "rename is bound to a version"},
    ),
    Lie(MakesParents, {"rename makes no parents", "set aside"}),
    Lie(
        IgnoresMissingParents,
        {"rename", "rename makes no parents", "a state changes once", "set aside"},
    ),
    Lie(RefusesButMakesParents, {"rename makes no parents", "set aside"}),
    Lie(EntersDirectories, {"rename enters no directory", "move a directory"}),
    Lie(RefusesButEnters, {"rename enters no directory", "move a directory"}),
    Lie(
        LeavesTheSource,
        {"rename", "one of many renames wins", "a state changes once", "listings", "set aside"},
        Identity.MODIFICATION_TIME,
        other_lines={"latency"},
    ),
    Lie(
        TearsOnRename,
        {
            "rename",
            "rename keeps identity",
            "rename is bound to a version",
            "one of many renames wins",
            "set aside",
        },
    ),
    Lie(CopiesOnRename, {"rename keeps identity"}),
    Lie(CopiesOnRename, {"rename keeps identity"}, Identity.MODIFICATION_TIME),
    Lie(IgnoresVersions, {"rename is bound to a version"}),
    Lie(IgnoresVersions, {"rename is bound to a version"}, Identity.GENERATION),
    Lie(RefusesVersionsButMoves, {"rename is bound to a version"}),
    Lie(KeepsOneVersion, _BOUND),
    Lie(KeepsTheOldOnReplace, {"replace", "replace is bound to a version"}),
    Lie(NeverReplaces, {"replace", "replace is bound to a version"}),
    Lie(ReplacesByCopy, {"replace", "replace is bound to a version"}),
    Lie(ReplacesAnyVersion, {"replace is bound to a version"}),
    Lie(ReplacesAnyVersion, {"replace is bound to a version"}, Identity.GENERATION),
    Lie(RefusesVersionsButReplaces, {"replace is bound to a version"}),
    Lie(ReplacesByAnyVersion, {"replace is bound to a version"}),
    Lie(ReplacesWhatIsGone, {"replace is bound to a version"}),
    Lie(ReplacesNoVersion, {"replace is bound to a version"}),
]
