"""Names for the objects that Ray returns, which have no types of their own."""

from __future__ import annotations

from typing import Any

Actor = Any  # type: ignore[explicit-any]
"""The handle of an actor: each method of its class has ``remote`` and ``options``."""
Method = Any  # type: ignore[explicit-any]
"""A method of such a handle."""
Ref = Any  # type: ignore[explicit-any]
"""The reference to the result of a call."""
Fetched = Any  # type: ignore[explicit-any]
"""The value of a reference; its type is not known."""
