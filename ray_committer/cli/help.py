"""How ``--help`` shows a command: its options in groups, and examples."""

from __future__ import annotations

from collections.abc import Iterable

import click

from ray_committer.options.settings import Group

EXAMPLES: dict[str, tuple[str, ...]] = {
    "abort": (
        "ray-committer abort /shared/table --job-id job_1 --dry-run",
        "ray-committer abort gs://bucket/table --job-id job_1 --undo",
    ),
    "commit": (
        "ray-committer commit /shared/table --expect-tasks 200",
        "ray-committer commit gs://bucket/table --executor ray --workers 8",
        "ray-committer commit hdfs://nn/table --job-id job_1 --dry-run",
    ),
    "demo": ("ray-committer demo",),
    "doctor": ("ray-committer doctor gs://bucket/table --executor ray",),
    "estimate": (
        "ray-committer estimate gs 1000000 --partitions 100 --workers 8",
        "ray-committer estimate hdfs 20000 --latency-ms 5 --output json",
    ),
    "explain": ("ray-committer explain RC-commit-conflict", "ray-committer explain"),
    "history": (
        "ray-committer history /shared/table",
        "ray-committer history gs://bucket/table --limit 5 --output json",
    ),
    "partitions": ("ray-committer partitions /shared/table --table db.t",),
    "records abort": ("ray-committer records abort postgresql://host/db public.t 3",),
    "records commit": ("ray-committer records commit postgresql://host/db public.t",),
    "records status": ("ray-committer records status postgresql://host/db public.t",),
    "show": (
        "ray-committer show /shared/table/_SUCCESS",
        "ray-committer show /shared/table/day=1/part-0.parquet",
    ),
    "spark-conf": ("ray-committer spark-conf gs://bucket/table",),
    "status": (
        "ray-committer status /shared/table",
        "ray-committer status /shared/table --watch",
        "ray-committer status gs://bucket/table --output json",
    ),
    "table": ("ray-committer table init /shared/table", "ray-committer table log /shared/table"),
    "table changes": ("ray-committer table changes /shared/table --since 41",),
    "table drop-partition": ("ray-committer table drop-partition /shared/table day=1 day=2",),
    "table export-delta": ("ray-committer table export-delta /shared/table",),
    "table files": ("ray-committer table files /shared/table --version 41",),
    "table init": ("ray-committer table init /shared/table",),
    "table log": ("ray-committer table log /shared/table",),
    "table resolve": ("ray-committer table resolve /shared/table job_1",),
    "table scan": ("ray-committer table scan /shared/table",),
    "table undo": ("ray-committer table undo /shared/table 41",),
    "vacuum": ("ray-committer vacuum /shared/table --older-than 7d --dry-run",),
    "validate": ("ray-committer validate /shared/table",),
}
"""Commands to copy, by the name of the command."""


def write_options(
    options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options in groups; one that is in no group is a common one."""
    records: dict[str, list[tuple[str, str]]] = {title: [] for title in Group}
    for option in options:
        record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
        if record is not None:
            records[getattr(option, "group", Group.COMMON)].append(record)
    for title, some in records.items():
        if some:
            with formatter.section(title):
                formatter.write_dl(some)


def write_examples(ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the examples of a command, each in one line."""
    lines = EXAMPLES.get(ctx.command_path.partition(" ")[2], ())
    if lines:
        with formatter.section("Examples"):
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known; empty if no known one is like it."""
    from difflib import get_close_matches  # only an error needs it

    like = get_close_matches(name, list(known))
    return f"; did you mean {' or '.join(like)}?" if like else ""
