"""How each fenced block of README.md and docs/ is tried, or why it cannot be tried here.

A block is named by its page, its heading and, from the second under a heading on, its number. One that
is in none of these tables fails `test_blocks.py`. A block runs as printed; only what a reader has and a
test has not, as a directory that all nodes mount or the address of a cluster, is put in its place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks that are run one after another in one scratch directory, after the preparation `given`."""

    blocks: tuple[str, ...]
    given: str = "nothing"


SMALL_FILES = "docs/table_maintenance.md: Fewer, larger files"

FIRST_STEPS = ("docs/index.md: A first job", "docs/index.md: A first job 2")

PLAIN = (
    Run(("README.md: As a separate job 2",), given="a recorded job"),
    Run(("README.md: Without Spark, from any Python tasks",)),
    Run(FIRST_STEPS),
    Run(("docs/python_api.md: Python API",)),
    Run(("docs/python_api.md: Events and cancellation",)),
    Run(("docs/reading_tables.md: Reading a table",), given="a table with a log"),
    Run(("docs/reading_tables.md: With DuckDB and polars",), given="a table with a log"),
    Run(("docs/reading_tables.md: With DuckDB and polars 2",), given="a table with a log"),
    Run(("docs/reading_tables.md: Incremental reads",), given="a table with a log"),
    Run(("docs/reading_tables.md: Looking into the past",), given="a table with a log"),
    Run((SMALL_FILES,), given="a table of small files"),
    Run(("docs/table_maintenance.md: Removing partitions",), given="a table of small files"),
    Run(("docs/table_maintenance.md: Undo of a job",), given="a table of small files"),
    Run(("docs/exports.md: Exporting tables with a log",), given="a table of small files"),
    Run(("docs/exports.md: Partition columns and other columns",), given="a committed table"),
    Run(("docs/command_line.md: Command line",), given="a job of three tasks"),
    Run(("docs/command_line.md: Status",), given="a committed table"),
    Run(("docs/command_line.md: Variables",), given="a job of three tasks"),
    Run(("docs/command_line.md: Completion",), given="a committed table"),
    Run(("docs/tables.md: Tables with a log",), given="a committed table"),
    Run(("docs/catalogs.md: The command",), given="a committed table"),
    Run(("docs/runbook.md: When a commit stops",), given="a recorded job"),
)
"""Python or bash, without Ray and Spark."""

ICEBERG = "docs/exports.md: Iceberg"
"""Python, with a Glue catalog of this machine."""

DEMO = "docs/index.md: See it work"
"""Is recorded, as printed, by docs/pictures/terminal.py, and tried by tests/cli/test_demo.py."""

ESTIMATE = "docs/estimate.md: Estimating a commit"
"""Bash, which makes no request."""

UNDO = "docs/command_line.md: Undo"
"""Bash, without Ray and Spark, after which nothing of a recorded job is left."""

TRY_AGAIN = "docs/run_ids.md: Airflow"
"""Bash, which runs a program twice."""

CONTRACT = "docs/stores/README.md: Your own store"
"""Run by pytest, with a store of memory."""

ENTRY_POINT = "docs/stores/README.md: Your own store 2"
"""Of a package that tests/stores/test_own_stores.py installs."""

FSSPEC_STORE = "docs/stores/README.md: Example: any fsspec file system"
"""Of the example that tests/docs/test_fsspec_store.py installs."""

RAY = (
    "README.md: Without Spark, from any Python tasks 2",
    "docs/ray.md: Commit pools",
    "docs/python_writers.md: Ray Data",
    "docs/ray.md: One pool for several drivers",
)
"""On a Ray cluster of this machine, in one driver, in this order."""

SPARK = (
    "docs/spark_settings.md: Settings of a Spark job",
    "README.md: In a running Spark session",
    "README.md: As a separate job",
    "docs/python_writers.md: Spark",
    "docs/index.md: A first Spark write",
    f"{SMALL_FILES} 2",
    "docs/run_ids.md: Streams",
)
"""In one Spark session, which the first of them makes, beside a Ray cluster, in this order."""

LOGGING = "docs/jvm_drivers.md: Progress, answers and errors"
"""A part of Spark's settings for logs, with which the next is run."""

CHILD = "docs/jvm_drivers.md: In a child process"
"""Run by bash, with Spark's programs on its PATH."""

SYNOPSES = ("docs/doctor.md: The doctor",)
"""Usage, with brackets: every option that it names must be one of the command."""

OUTPUT = ("docs/spark.md: Progress output",)
"""What is printed."""

PICTURES = (
    "docs/architecture.md: Modules and their dependencies",
    "docs/architecture.md: One commit",
)
"""Drawings of text."""

ELSEWHERE = "is run as printed by tests/docs/test_events_page.py, or is what it shows"
RECORDS = "is run as printed, with the URL of a PostgreSQL of this machine, by tests/records"
COMMANDS = "is run as printed, with the URL of a database of this machine, by tests/records/test_page.py"
INSTALLS = "installs from an index; the extras that it names are compared with pyproject.toml"
WHEEL = (
    "builds and installs the wheel: tests/repo/test_wheel.py does the same; the targets are looked for"
)
MINUTES = "takes minutes"
ACCOUNT = "needs an account in the cloud, or a cluster of that name; it is compiled"

NOT_RUN = {
    "docs/events.md: On the screen": ELSEWHERE,
    "docs/events.md: On the screen 2": ELSEWHERE,
    "docs/events.md: As JSON lines": ELSEWHERE,
    "docs/events.md: As JSON lines 2": ELSEWHERE,
    "docs/events.md: As OpenTelemetry spans 2": ELSEWHERE,
    "docs/events.md: As OpenTelemetry spans 3": ELSEWHERE,
    "docs/events.md: As OpenTelemetry spans": INSTALLS,
    "README.md: Two commands": "is what CI runs, and sets up environments; the targets are looked for",
    "README.md: In a minute": WHEEL,
    "docs/index.md: Install": WHEEL,
    "docs/index.md: Install 2": INSTALLS,
    "docs/python_writers.md: Writing from Python": INSTALLS,
    "docs/records/README.md: Writing to a database": INSTALLS,
    "docs/records/README.md: Spark": RECORDS,
    "docs/records/README.md: Ray Data": RECORDS,
    "docs/records/README.md: Interrupted jobs": COMMANDS,
    "docs/stores/adls.md: Azure Data Lake Storage Gen2": INSTALLS,
    "docs/stores/gcs.md: Google Cloud Storage": INSTALLS,
    "docs/stores/hdfs.md: HDFS": INSTALLS,
    "docs/stores/s3.md: Amazon S3": INSTALLS,
    "docs/ray.md: Measured times": MINUTES,
    "docs/spark.md: Tests": MINUTES,
    "docs/stores/gcs.md: Tests": MINUTES,
    "docs/stores/hdfs.md: Tests": MINUTES,
    "docs/stores/README.md: Example: any fsspec file system 2": ACCOUNT,
    "docs/stores/adls.md: Azure Data Lake Storage Gen2 2": ACCOUNT,
    "docs/stores/gcs.md: Google Cloud Storage 2": ACCOUNT,
    "docs/stores/hdfs.md: HDFS 2": ACCOUNT,
    "docs/stores/s3.md: Amazon S3 2": ACCOUNT,
    "docs/platforms.md: Airflow": ACCOUNT,
    "docs/stores/s3.md: Spark": ACCOUNT,
    "docs/stores/s3.md: Uploads of no job": ACCOUNT,
    "docs/s3a_committer.md: Finishing a job whose driver has died": ACCOUNT,
    "docs/s3a_committer.md: Giving a job up": ACCOUNT,
    "docs/stores/hdfs.md: Protocols and requests": ACCOUNT,
}
"""Cannot run here, and why."""


def all_names() -> list[str]:
    """Every block that is in one of the tables."""
    plain = [name for run in PLAIN for name in run.blocks]
    return [
        *plain,
        ICEBERG,
        DEMO,
        UNDO,
        TRY_AGAIN,
        ESTIMATE,
        CONTRACT,
        ENTRY_POINT,
        FSSPEC_STORE,
        *RAY,
        *SPARK,
        LOGGING,
        CHILD,
        *SYNOPSES,
        *OUTPUT,
        *PICTURES,
        *NOT_RUN,
    ]
