"""Ray metrics of a worker: the measurements of each call, at its node's ``/metrics``.

Ray puts ``ray_`` before each name, so they begin with ``committer``.
"""

from __future__ import annotations

from ray.util.metrics import Counter, Histogram

from ray_committer.protocol.statistic_names import COMMIT_FILE_RENAME

_BOUNDARIES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]


class WorkerMetrics:
    """Exports the `IOStatistics` that results of work carry as ``statistics``."""

    def __init__(self) -> None:
        self._operations = Counter(
            "committer_operations",
            description="Operations of commits by name, as in the _SUCCESS file.",
            tag_keys=("operation",),
        )
        self._rename_seconds = Histogram(
            "committer_rename_seconds",
            description="Mean seconds of a file's rename, one sample per shard.",
            boundaries=_BOUNDARIES,
        )

    def note(self, result: object) -> None:
        """Add the measurements of one call: one increment per counter, one observation per shard."""
        statistics = getattr(result, "statistics", None)
        if statistics is None:
            return
        for name, value in statistics.counters.items():
            if value > 0:
                self._operations.inc(value, tags={"operation": name})
        mean = statistics.meanstatistics.get(f"{COMMIT_FILE_RENAME}.mean")
        if mean is not None and mean.samples:
            self._rename_seconds.observe(mean.sum / mean.samples / 1000)
