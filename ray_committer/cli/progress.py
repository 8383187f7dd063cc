"""The progress of a running commit, on standard error.

On a terminal it is a display that is redrawn; anywhere else it is lines.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager

from ray_committer.cli.lines import Shown, lines


def progress() -> AbstractContextManager[Shown]:
    """Show a commit until the block ends: drawn on a terminal, in lines elsewhere."""
    if (
        sys.stderr is None
        or not sys.stderr.isatty()
        or os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    ):
        return lines()
    from ray_committer.cli.display import display  # only here, because it is slow to import

    return display()
