"""All stores that break promises."""

from __future__ import annotations

from tests.promises.lies import directories, files, renames, states

LIES = [*renames.LIES, *states.LIES, *files.LIES, *directories.LIES]
