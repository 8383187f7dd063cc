"""PyArrow, which is optional: import it from here, so that the error shows how to install it."""

from __future__ import annotations

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as e:
    raise ImportError(
        f"{e.name} is not installed; to write to a database, install ray-committer[records] on all nodes"
    ) from e

__all__ = ["pa", "pc"]
