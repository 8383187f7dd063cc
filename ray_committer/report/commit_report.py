"""The report of one run of a commit: its data, which prints as text and is a page in a notebook."""

from __future__ import annotations

from ray_committer.report.run_data import RunData
from ray_committer.report.text import report_text


class CommitReport(RunData, frozen=True, kw_only=True):
    """One run of a commit: its `CommitResult`, what its events add to that, and sentences about both.

    `started_at` and `ended_at` are times in UTC (ISO 8601, to the second). `options` are those that
    differ from their default values, and `links` URLs or paths of what a person may want to open, by
    what they are. `stages`, `files_at` (seconds since the begin, and the files in place then),
    `worker_rows` (slowest first), `throttled_spans` and `lost_workers` come from the events, at most a
    few hundred of each; `dropped` counts what was left out, by kind. `findings`
    are sentences with what a person should know about them. `command` runs the commit again, with the
    values of these `storage_options`, and `catalog_command` tells a catalog of the job's partitions; it
    is empty if that is not necessary. `source` and `untold` belong to a report that was read from the
    file of an old job: they name that file, and what it does not contain.
    """

    def __str__(self) -> str:
        """Return the report as lines of text, as the command line prints it."""
        return report_text(self)

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it."""
        from ray_committer.report.html import report_fragment  # only where a notebook asks for it

        return report_fragment(self)
