"""A driver program that runs blocks of the pages on a Ray cluster of its own; run as a script.

``driver_of_blocks.py ray|spark SCRATCH NAME...`` runs the blocks of these names, one after another, and
prints a line of JSON for each: its name, what it raised, and what its tables hold then. A process of its
own, since blocks connect to Ray, start Spark and set what holds for all of a process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

import ray_committer
from ray_committer.table_jobs.table import init_table
from tests.docs import ways
from tests.docs.blocks import Block, all_blocks
from tests.docs.preparations import data_files, printed_in, write_job
from tests.raylets import start_cluster

SPARK_ARGUMENTS = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
ROWS = 60

Namespace = dict[str, Any]


def main() -> None:
    kind, scratch, *names = sys.argv[1:]
    cluster = start_cluster({"num_cpus": 4})
    os.environ["RAY_ADDRESS"] = cluster.address
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{SPARK_ARGUMENTS} pyspark-shell"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        run_all([all_blocks()[name] for name in names], Path(scratch), kind, cluster.address)
    finally:
        ray.shutdown()
        cluster.shutdown()


def run_all(blocks: list[Block], scratch: Path, kind: str, address: str) -> None:
    """Run the blocks in one namespace, each in an empty directory of shared files."""
    namespace: Namespace = {}
    for block in blocks:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        error = ""
        try:
            prepare(block, scratch, namespace)
            text = printed_in(block.text, scratch, **{"10.0.0.1:6379": address})
            run_text(text, block.language, namespace)
            found = LOOKS.get(block.name, LOOKS_BY_KIND[kind])(scratch, namespace)
        except Exception:  # noqa: BLE001 - the test shows it
            error, found = traceback.format_exc(), {}
        print(json.dumps({"block": block.name, "error": error, **found}), flush=True)


def prepare(block: Block, scratch: Path, namespace: Namespace) -> None:
    """What the reader of a block has already."""
    namespace["tables"] = [str(scratch / name) for name in ("one", "two")]
    if block.name in ("docs/ray.md: Commit pools", "docs/ray.md: One pool for several drivers"):
        for table in namespace["tables"]:
            write_job(Path(table))
    if "spark" in namespace:
        namespace["df"] = (
            namespace["spark"]
            .range(ROWS)
            .selectExpr("id", "CAST(id % 4 AS STRING) AS day", "CAST(id % 3 AS STRING) AS country")
            .repartition(2)
        )
    if block.name == ways.SPARK[6]:
        (scratch / "incoming").mkdir()
        lines = [json.dumps({"id": number}) for number in range(ROWS)]
        (scratch / "incoming/rows.json").write_text("\n".join(lines))
    if block.name == ways.SPARK[5]:
        from ray_committer.spark import install, uninstall

        install(namespace["spark"])
        namespace["df"].write.partitionBy("day").parquet(str(scratch / "table"))
        uninstall(namespace["spark"])
        init_table(str(scratch / "table"))


def run_text(text: str, language: str, namespace: Namespace) -> None:
    if language == "python":
        exec(compile(text, "block", "exec"), namespace)
        return
    command = text.replace("ray-committer", f"{sys.executable} -m ray_committer.cli")
    result = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def look_at_tables(scratch: Path, namespace: Namespace) -> dict[str, Any]:
    """The tables that hold committed files, and how many."""
    return {table.name: len(data_files(table)) for table in scratch.iterdir()}


def look_at_rows(scratch: Path, namespace: Namespace) -> dict[str, Any]:
    """What Spark reads from the table, where its commit ran, and which committer `_SUCCESS` names."""
    from ray_committer.spark import session, uninstall

    table, spark = scratch / "table", namespace["spark"]
    installed = list(session.installed.values())
    report = installed[0].last_report if installed else namespace.get("report")
    uninstall(spark)
    jobs = ray_committer.list_jobs(str(table))
    if jobs:
        visible = data_files(table)
        ray_committer.commit_job(str(table))
    found = {
        "rows": spark.read.parquet(str(table)).count(),
        "committer": json.loads((table / "_SUCCESS").read_bytes())["committer"],
    }
    if jobs:
        return {**found, "state": jobs[0].state, "visible_before": len(visible)}
    return {**found, "executor": report.executor if report else ""}


def look_at_settings(scratch: Path, namespace: Namespace) -> dict[str, Any]:
    """What the session's settings make of a write: without a marker, as the block asks for."""
    from ray_committer.spark import uninstall

    spark, table = namespace["spark"], scratch / "table"
    spark.sparkContext.setLogLevel("OFF")
    spark.range(ROWS).write.parquet(str(table))
    found = {
        "rows": spark.read.parquet(str(table)).count(),
        "marker": (table / "_SUCCESS").exists(),
        "retry_seconds": spark.conf.get("spark.ray_committer.retry_seconds"),
        "temporary": (table / "_temporary").exists(),
    }
    spark.conf.unset("spark.ray_committer.mark_success")
    uninstall(spark)
    return found


def look_at_nothing(scratch: Path, namespace: Namespace) -> dict[str, Any]:
    """A block that must leave nothing."""
    return {"left": sorted(path.name for path in scratch.rglob("*"))}


def look_at_small_files(scratch: Path, namespace: Namespace) -> dict[str, Any]:
    """As `look_at_rows`, and how many files each of the four days has."""
    found, table = look_at_rows(scratch, namespace), scratch / "table"
    return {**found, "files": [len(data_files(table / f"day={day}")) for day in range(4)]}


def look_at_stream(scratch: Path, namespace: Namespace) -> dict[str, Any]:
    """As `look_at_rows`, and how many rows and versions there are after the last batch was repeated."""
    for one in (scratch / "checkpoint/commits").iterdir():
        one.unlink()
    versions = len(ray_committer.history(str(scratch / "table")))
    namespace["query"].trigger(availableNow=True).start().awaitTermination()
    assert len(ray_committer.history(str(scratch / "table"))) == versions
    return look_at_rows(scratch, namespace)


Look = Callable[[Path, Namespace], dict[str, Any]]

LOOKS_BY_KIND: dict[str, Look] = {"ray": look_at_tables, "spark": look_at_rows}
LOOKS: dict[str, Look] = {
    ways.SPARK[0]: look_at_settings,
    ways.SPARK[5]: look_at_small_files,
    ways.SPARK[6]: look_at_stream,
    ways.RAY[0]: look_at_nothing,
}


if __name__ == "__main__":
    main()
