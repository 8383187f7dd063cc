"""Write the tables of measured figures into the pages, from ``benchmarks/results``, and of settings.

``python -m docs.figures`` writes each table between its two marks, ``<!-- figures: name -->`` and
``<!-- end -->``. Nothing else in the pages is a copy of a result, or of a table of settings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docs import settings
from docs.pictures.numbers import FAULTS, GROWTH
from ray_committer.report.amounts import seconds_text

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)

OURS, HADOOPS = "ray_committer, threads", "Hadoop's manifest committer"
COMMITTERS = {
    OURS: "ray_committer, in threads",
    "ray_committer, warm pool": "on Ray, workers ready",
    "ray_committer, cold": "on Ray, its own workers",
    HADOOPS: HADOOPS,
    "FileOutputCommitter v1": "FileOutputCommitter v1",
    "FileOutputCommitter v2": "v2",
    "fsspec mv": "a loop of fsspec's `mv`",
}
STORES = {
    "20 ms": "20 ms per request",
    "20 ms, 128 in flight": "20 ms, 128 in flight",
    "local files": "local files",
    "HDFS": "HDFS",
    "the published commit": "43 ms, 128 in flight",
}

LIMIT = "of a store's limit"

Rows = Iterable[Iterable[object]]


def main() -> None:
    """Write the tables, and print the pages that changed."""
    for path, text in pages():
        if path.read_text() != text:
            path.write_text(text)
            print(path)


def pages() -> Iterator[tuple[Path, str]]:
    """Each page that has marks, as it has to be."""
    for path in (HERE.parent / "README.md", *sorted(HERE.rglob("*.md"))):
        text = path.read_text()
        if MARKED.search(text):
            yield path, MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n", text)


def result(name: str) -> dict[str, Any]:
    """What a benchmark has measured."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def table(head: Iterable[str], rows: Rows) -> str:
    """A table in Markdown."""
    names = list(head)
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(names)} |", f"|{'---|' * len(names)}", *lines]) + "\n"


def peers() -> str:
    """Seconds of all committers on all stores."""
    commits = result("peers")["commits"]
    rows = [
        [text, shape, *(_seconds(by.get(name)) for name in COMMITTERS)]
        for place, text in STORES.items()
        for shape, by in commits[place].items()
    ]
    return table(["store", "tasks x files", *COMMITTERS.values()], rows)


def requests() -> str:
    """The requests of one commit, by committer."""
    names = {
        OURS: "ray_committer",
        **{one: COMMITTERS[one] for one in (HADOOPS, "FileOutputCommitter v1", "fsspec mv")},
    }
    rows = [
        [shape, *(f"{by[name]['median']['requests']:,.0f}" for name in names)]
        for shape, by in result("peers")["commits"]["20 ms"].items()
        if names.keys() <= by.keys()
    ]
    return table(["tasks x files", *names.values()], rows)


def in_spark() -> str:
    """A dynamic overwrite in Spark, by committer."""
    rows = [
        [name, f"{one['median']['seconds']:.1f}", f"{one['median']['commit_seconds']:.1f}"]
        for name, one in result("peers")["commits"]["Spark, 20 ms"]["200 partitions"].items()
    ]
    return table(["committer", "the whole job, s", "after its last task, s"], rows)


def beside_hadoop() -> str:
    """Requests and seconds of both manifest committers."""
    commits, rows = result("peers")["commits"], []
    for place, in_flight in (("20 ms", 32), ("20 ms, 128 in flight", 128)):
        for shape, by in commits[place].items():
            local = commits["local files"].get(shape, {}) if in_flight == 32 else {}
            counted = [f"{by[name]['median']['requests']:,.0f}" for name in (OURS, HADOOPS)]
            taken = [_seconds(one.get(name)) for one in (local, by) for name in (OURS, HADOOPS)]
            rows.append([shape, in_flight, *counted, *taken])
    columns = ["requests", "s on local files", "s at 20 ms"]
    both = [name for column in columns for name in (f"{column}: ray_committer", "Hadoop")]
    return table(["tasks x files", "in flight", *both], rows)


def spark_jobs() -> str:
    """Seconds of Spark jobs, and of their commits."""
    names = {
        "ours": "ray_committer",
        "v1": "v1",
        "manifest": HADOOPS,
        "ours on Ray": "ray_committer on Ray",
    }
    jobs = result("spark_jobs")["jobs"]
    rows = [
        [_words(job), *(_with_commit(one["median"][name]) for name in names)]
        for job, one in jobs.items()
    ]
    return table(["job", *names.values()], rows)


def whole_job() -> str:
    """Seconds of an append by Spark of 2,000 files, by committer."""
    names = {"ours": "ray_committer", "v1": "Spark's own committer", "manifest": HADOOPS}
    local, remote = (
        result("spark_jobs")["jobs"][f"append of 2,000 files, {ms} ms"]["median"] for ms in (0, 20)
    )
    rows = [
        [text, f"{local[name]['seconds']:.1f} s", f"{remote[name]['seconds']:.0f} s"]
        for name, text in names.items()
    ]
    return table(["committer", "on local files", "at 20 ms per request"], rows)


def clients() -> str:
    """Processor time of a rename, 32 in flight."""
    google = result("http_renames")["levels"]["32 in flight"]["median"]
    azure = result("adls_renames")["levels"]["32 in flight"]["median"]
    s3 = result("s3_commits")["completions"]["32 in flight"]["median"]
    hdfs = result("hdfs_renames")["in_flight"]["32"]["median"]
    ms, completion = "ms of processor a rename", "ms of processor a completion"
    aio = "azure-storage-file-datalake aio rename_file"
    rows = [
        ("Google: ray_committer", f"{google[f'GcsStore, {ms}']:.2f}", "http_renames"),
        ("gcsfs' `mv_file`", f"{google[f'gcsfs mv_file, {ms}']:.2f}", ""),
        ("Google's client, `move_blob`", f"{google[f'google-cloud-storage move_blob, {ms}']:.2f}", ""),
        ("Azure: ray_committer", f"{azure[f'AdlsStore, {ms}']:.2f}", "adls_renames"),
        ("Microsoft's asynchronous client", f"{azure[f'{aio}, {ms}']:.2f}", ""),
        ("adlfs, a copy and a delete", f"{azure[f'adlfs copy and delete, {ms}']:.2f}", ""),
        ("S3: ray_committer, a completion", f"{s3[f'S3Store, {completion}']:.2f}", "s3_commits"),
        ("boto3, a completion", f"{s3[f'boto3, {completion}']:.2f}", ""),
        ("HDFS: ray_committer over RPC", f"{hdfs['HdfsStore: ms']:.3f}", "hdfs_renames"),
        ("hdfs-native's own fsspec", f"{hdfs['hdfs_native.fsspec mv: ms']:.3f}", ""),
        ("WebHDFS: ray_committer", f"{hdfs['WebHdfsStore: ms']:.2f}", ""),
        ("fsspec's `webhdfs`", f"{hdfs['fsspec webhdfs mv: ms']:.2f}", ""),
    ]
    head = ["client", "ms of CPU per rename, 32 in flight", "command"]
    return table(head, [(client, value, _command(name)) for client, value, name in rows])


def growth() -> str:
    """How a commit grows: the first and the last point of each series, and the exponents."""
    rows = []
    for name, series in result("growth")["series"].items():
        first, last = series["points"][0], series["points"][-1]
        fits = series.get("fits", {})
        rows.append(
            [
                GROWTH.get(name, name),
                f"{first[name]:,} to {last[name]:,}",
                f"{first['seconds']:.1f} to {last['seconds']:.1f}",
                f"{first['peak_mb of driver']:.0f} to {last['peak_mb of driver']:.0f}",
                *(
                    f"{fits[key]['last_exponent']:.2f}" if key in fits else "-"
                    for key in ("seconds", "processor_seconds")
                ),
            ]
        )
    head = ["what grows", "numbers", "seconds", "driver's memory, MB"]
    return table([*head, "exponent of the time", "of all processors' time"], rows)


def faults() -> str:
    """What each fault costs."""
    rows = [
        [FAULTS[name], f"{one['median']['seconds_lost']:.1f}", f"{one['median']['times']:.2f}"]
        for name, one in result("faults")["faults"].items()
        if name in FAULTS
    ]
    return table(["fault", "seconds longer", "times as long"], rows)


def prices() -> str:
    """Requests and list prices of simulated commits."""
    _, many = result("estimates")["curves"].values()
    rows = [
        [
            name,
            f"{one['requests'] / 1e6:,.1f} million",
            "none" if one["dollars"] is None else f"${one['dollars']:,.0f}",
        ]
        for name, one in many.items()
    ]
    return table(["store", "requests for 10^8 files", "list price"], rows)


def enough_workers() -> str:
    """The workers that are enough, simulated."""
    few, many = result("estimates")["curves"].values()
    rows = [
        [
            name,
            *(
                text
                for each in (few[name]["enough"], one["enough"])
                for text in (f"{each['workers']:,}", seconds_text(each["seconds"]))
            ),
            one["enough"]["reason"],
        ]
        for name, one in many.items()
    ]
    head = ["store", "enough for 10^6 files", "time", "enough for 10^8 files", "time"]
    return table([*head, "then it waits for"], rows)


def simulated_faults() -> str:
    """How long simulated commits take with faults."""
    names = {
        "none": "no fault",
        "slow workers": "ten slow workers",
        "lost workers": "ten lost workers",
        "lost driver": "lost driver",
    }
    found = result("estimates")["faults"]
    rows = [[store, *(seconds_text(one[name]) for name in names)] for store, one in found.items()]
    return table(["store", *names.values()], rows)


def single() -> str:
    """Single figures that the pages refer to."""
    rows = [(what, value, _command(name)) for what, value, name in _single()]
    return table(["what", "measured", "command"], rows)


def _single() -> Iterator[tuple[str, str, str]]:
    speed, calls, one_file = (
        result("ray_speed"),
        result("ray_calls")["bars"],
        result("one_file_tasks")["run"],
    )
    four, one = (speed[who]["median"] for who in ("ray_4x64_warm", "threads_32"))
    files = f"renames of {speed['files']:,} files, 35 ms per request"
    ideal = f"{four['rename_seconds']:.1f} s, {100 * four['rename_of_ideal']:.0f} % of the ideal speed"
    yield f"{files}: four workers, each with 64 in flight", ideal, "ray_speed"
    yield f"{files}: one process with 32 threads", f"{one['rename_seconds']:.0f} s", "ray_speed"
    workers = {
        n: each["median"]["renames_per_second"] for n, each in result("scaling")["workers"].items()
    }
    times = f"{workers['8']:,.0f} and {workers['1']:,.0f}"
    yield "renames per second of eight workers, and of one, with 16 in flight each", times, "scaling"
    took = f"{one_file['seconds']:.0f} s, {one_file['of_ideal']:.2f} times the ideal"
    yield "commit of 94,499 tasks of one file, four workers with 64 in flight", took, "one_file_tasks"
    for name, what in (
        ("warm pool, 1x10, seconds", "commit of ten local files on workers that are ready"),
        ("warm pool, 20x100, seconds", "commit of 2,000 local files on workers that are ready"),
        ("cold on a running cluster, 1x10, seconds", "commit of ten local files with its own workers"),
    ):
        yield what, f"{calls[name]['measured']:.2g} s", "ray_calls"
    job = result("raydp_job")
    ends = [f"{job[who]['median']['commit_seconds']:.2f} s" for who in ("a pool", "workers of its own")]
    what = (
        "after the last task of a Spark job of 2,000 files on RayDP: with a pool, with its own workers"
    )
    yield what, ", ".join(ends), "raydp_job"
    ten = result("ten_million_entries")
    manifest = f"{ten['bars']['driver bytes a manifest']['measured']:,} bytes per manifest"
    memory = f"{ten['runs'][3]['peak_mb']:.0f} MB, {manifest}"
    yield "driver's memory, ten million files of 100,000 tasks", memory, "ten_million_entries"
    linear = f"{ten['bars']['seconds a file, all over a tenth']['measured']:.2f}"
    yield "time of a file among ten million, times that among a million", linear, "ten_million_entries"
    costs = result("commit_cpu")
    files = [one["median"]["microseconds_a_file"] for one in costs["commits"].values()]
    what = f"processor time of a file in a whole commit by threads, {costs['in_flight']} in flight"
    yield what, f"{min(files):.0f} to {max(files):.0f} microseconds", "commit_cpu"
    call = f"{ten['runs'][3]['driver_ms_a_shard']:.1f} ms"
    yield "what a call of a worker costs the driver", call, "ten_million_entries"
    memory = f"{result('s3_ten_million')['runs'][1]['peak_mb']:.0f} MB"
    yield "driver's memory, ten million files of 20,000 tasks on S3", memory, "s3_ten_million"
    yield from _on_s3()
    yield from _of_faults()
    yield from _of_tables()


def _on_s3() -> Iterator[tuple[str, str, str]]:
    found, ms = result("s3_commits"), "ms of processor a completion"
    for name, place in (
        ("32 in flight, 35 ms", "32 in flight, 35 ms"),
        ("4 x 64 in flight, 200 ms", "four workers, 64 in flight, 200 ms"),
    ):
        ideal = f"{found['commits'][name]['median']['of ideal']:.2f} of the ideal speed"
        yield f"completions of a commit on S3, {place} per request", ideal, "s3_commits"
    for name, one in found["completions"].items():
        times = f"{one['median'][f'boto3, {ms}'] / one['median'][f'S3Store, {ms}']:.0f} times ours"
        yield f"boto3's processor time of a completion, {name}", times, "s3_commits"
    slowest = f"{min(one['times'] for one in found['beside S3A']['rounds']):.1f} times ours"
    yield "Hadoop's magic committer with its default threads, 2,000 files", slowest, "s3_commits"


def _of_faults() -> Iterator[tuple[str, str, str]]:
    slow, refused = result("straggler")["bars"], result("throttling")["bars"]
    ideal = f"{slow['times the ideal']['measured']:.2f} times the ideal"
    yield "renames if one of four workers is eight times slower", ideal, "straggler"
    longer = f"{refused['one in a hundred refused, times the seconds']['measured']:.2f} times as long"
    yield "commit if the store refuses one request in a hundred by chance", longer, "throttling"
    used = f"{refused[LIMIT]['measured']:.2f}"
    yield "share that is used of the limit of a store, which refuses more", used, "throttling"
    even = [100 * case["median"]["of_limit"] for case in result("rate_limit")["cases"].values()]
    yield "use of a limit that you set", f"{min(even):.0f} to {max(even):.0f} %", "rate_limit"
    simulator = result("simulator")
    off = max(abs(one["simulated_to_real"] - 1) for one in simulator["points"].values())
    yield "simulated times, at most off", f"{math.ceil(100 * off)} %", "simulator"


def _of_tables() -> Iterator[tuple[str, str, str]]:
    export = f"{result('exports')['median']['first']:.1f} s"
    yield "first export of 10,000 local Parquet files to Delta", export, "exports"
    filtered = result("snapshot_filter")
    ratio = f"{filtered['table']['ratio']:.2f} times that of the directory"
    yield (
        f"query through the snapshot filter, {filtered['directories']:,} directories",
        ratio,
        "snapshot_filter",
    )
    faster = result("catalog_partitions")["median_times_faster"]
    times = f"{faster['tell_catalog']:.0f} times as fast, {faster['statements']:.0f} by statements"
    yield "telling a catalog beside `MSCK REPAIR TABLE`", times, "catalog_partitions"
    plain, one_group = (
        ", ".join(f"{one['seconds']:.2f}" for one in shapes.values())
        for shapes in result("ray_data")["ratios"].values()
    )
    sink = "Ray Data's sink, times `write_parquet`: from memory; read and mapped; into 50 partitions"
    yield sink, plain, "ray_data"
    yield "the same, if both make one row group per file", one_group, "ray_data"


def _seconds(found: Mapping[str, Any] | None) -> str:
    """Seconds of a commit; in brackets if they are computed."""
    if found is None:
        return "-"
    seconds = found["median"]["seconds"]
    text = f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}" if seconds < 1 else f"{seconds:.3g}"
    return f"({text})" if found.get("computed") else text


def _with_commit(taken: Mapping[str, float]) -> str:
    return f"{taken['seconds']:.1f} ({taken['commit_seconds']:.1f})"


def _words(write: str) -> str:
    return write.replace("dynamic of", "dynamic overwrite of")


def _command(name: str) -> str:
    return f"`python benchmarks/{name}.py`" if name else ""


TABLES: dict[str, Callable[[], str]] = {
    "peers": peers,
    "requests": requests,
    "in-spark": in_spark,
    "beside-hadoop": beside_hadoop,
    "spark-jobs": spark_jobs,
    "whole-job": whole_job,
    "clients": clients,
    "growth": growth,
    "faults": faults,
    "prices": prices,
    "enough-workers": enough_workers,
    "simulated-faults": simulated_faults,
    "single": single,
    "options": lambda: table(settings.OPTION_COLUMNS, settings.options()),
    "hadoop-keys": lambda: table(settings.HADOOP_COLUMNS, settings.hadoop_keys()),
}

if __name__ == "__main__":
    main()
