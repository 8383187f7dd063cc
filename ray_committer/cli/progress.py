"""What a person sees of a commit while it runs, on standard error.

On a terminal that is a display which is drawn anew; anywhere else lines.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager

from ray_committer.cli.lines import Shown, lines


def progress() -> AbstractContextManager[Shown]:
    """Show a commit until the block ends: drawn on a terminal, in lines elsewhere."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return lines()
    from ray_committer.cli.display import display  # only here, since it takes a while to import

    return display()
