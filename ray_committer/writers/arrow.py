"""PyArrow, which is optional: import it from here, so that the error shows how to install it."""

from __future__ import annotations

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv, parquet
except ImportError as e:
    raise ImportError(
        f"{e.name} is not installed; to write with Arrow, install ray-committer[arrow] on all nodes"
    ) from e

__all__ = ["csv", "pa", "parquet", "pc"]
