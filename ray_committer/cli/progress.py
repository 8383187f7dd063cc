"""Show a running commit on standard error: as a display on a terminal, anywhere else as lines."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager

from ray_committer.cli.lines import Shown, lines


def progress() -> AbstractContextManager[Shown]:
    """Show a commit until the block ends: drawn on a terminal, in lines elsewhere."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not is_terminal or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return lines()
    from ray_committer.cli.display import display  # only here, because it is slow to import

    return display()
