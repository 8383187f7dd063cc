"""Names for what Ray hands out, none of which has a type of its own."""

from __future__ import annotations

from typing import Any

Actor = Any  # type: ignore[explicit-any]
"""The handle of an actor: each method of its class has ``remote`` and ``options``."""
Method = Any  # type: ignore[explicit-any]
"""A method of such a handle."""
Ref = Any  # type: ignore[explicit-any]
"""The reference of what a call will return."""
Fetched = Any  # type: ignore[explicit-any]
"""What a reference stands for; of which type, it does not say."""
