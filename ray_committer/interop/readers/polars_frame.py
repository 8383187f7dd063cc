"""A polars frame of the files of a snapshot. Polars is optional, and imported with this module."""

from __future__ import annotations

import pyarrow.dataset as pads

try:
    import polars as pl
except ImportError as e:
    raise ImportError(f"{e.name} is not installed; to read with polars, install it with pip") from e


def lazy_frame(dataset: pads.Dataset) -> pl.LazyFrame:
    """A frame that reads of a dataset only the rows and columns that a query needs."""
    return pl.scan_pyarrow_dataset(dataset)
