"""Prepare types to be decoded by several threads.

msgspec 0.22 ends the process if several threads decode a type for the first time at the same moment. A
type is prepared once its module has made a decoder of it.
"""

from __future__ import annotations

from typing import Any

import msgspec


def prepare(*kinds: Any) -> None:
    """Prepare some types, and all types that they contain; called when their module is imported."""
    for kind in kinds:
        msgspec.json.Decoder(kind)
