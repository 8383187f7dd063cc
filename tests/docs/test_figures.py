"""Every figure of README.md and docs/ that was measured is the one in benchmarks/results."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from docs.pictures.numbers import FAULTS
from ray_committer.report.amounts import seconds_text
from tests.docs.blocks import ROOT


def result(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text())


def figures() -> list[tuple[str, str]]:
    """Page and text, made from the results."""
    speed, peers, limit = result("ray_speed"), result("peers"), result("rate_limit")
    workers = {n: one["median"]["renames_per_second"] for n, one in result("scaling")["workers"].items()}
    slow = result("straggler")["bars"]["times the ideal"]["measured"]
    bars = result("ten_million_entries")["bars"]
    threads = speed["threads_32"]["median"]["rename_seconds"]
    warm = speed["ray_4x64_warm"]["median"]
    ideal = round(100 * warm["rename_of_ideal"])
    times = speed["bars"]["renames, times one process with 32 threads"]["measured"]
    even = [case["median"]["of_limit"] for case in limit["cases"].values()]
    seconds = (
        f"{speed['files']:,} files in {warm['rename_seconds']:.1f} s. "
        f"One process with 32 threads takes {threads:.0f} s"
    )
    peak = f"{bars['driver peak resident MB']['measured']:.0f} MB"
    manifest = f"{bars['driver bytes a manifest']['measured']:,} bytes per manifest"
    linear = f"{bars['seconds a file, all over a tenth']['measured']:.2f} of the time"
    export = {name: result("exports")[name]["median"]["first"] for name in ("delta", "iceberg")}
    filtered = result("snapshot_filter")
    told = result("catalog_partitions")["median_times_faster"]
    known = f"a table of 300, {told['tell_catalog']:.0f} times as fast as `MSCK REPAIR TABLE`"
    return [
        (
            "docs/exports.md",
            f"took {export['delta']:.1f} s to Delta and {export['iceberg']:.1f} s to Iceberg",
        ),
        (
            "docs/reading_tables.md",
            f"took {filtered['table']['ratio']:.2f} times as long as that of the plain directory, "
            f"with {filtered['directories']:,} directories",
        ),
        ("docs/catalogs.md", known),
        ("docs/catalogs.md", f"{told['statements']:.0f} times by the printed statements"),
        ("README.md", seconds),
        (
            "docs/operations.md",
            f"Four workers, each with 64 requests in flight, renamed {speed['files']:,} files "
            f"in {warm['rename_seconds']:.1f} s, at {ideal} % of the ideal speed. "
            f"One process with 32 threads took {threads:.0f} s",
        ),
        ("docs/operations.md", f"{slow:.2f} times the ideal"),
        ("docs/operations.md", f"used {100 * min(even):.0f} to {100 * max(even):.0f} % of it"),
        ("docs/architecture.md", f"peaked at {peak}"),
        *(("docs/comparison.md", row) for row in beside_hadoop(peers["commits"])),
        ("docs/comparison.md", f"renamed {times:.1f} times as many files per second"),
        (
            "docs/comparison.md",
            f"made {workers['8']:,.0f} renames per second where one made {workers['1']:.0f}",
        ),
        (
            "docs/design/002-ranges-not-entries.md",
            f"peaked at {peak}, {manifest}, and a file took {linear}",
        ),
        ("docs/design/002-ranges-not-entries.md", f"{slow:.2f} times the ideal"),
        (
            "docs/design/004-leases-and-fencing.md",
            f"found {100 * min(even):.0f} to {100 * max(even):.0f} %",
        ),
        *on_ray(),
        *beside_ray_data(),
        *costs_of_a_rename(),
        *on_s3(),
        *whole_jobs(),
        *(("docs/comparison.md", row) for row in tables_of_tpch()),
        *(("docs/numbers.md", text) for text in numbers()),
        *(("docs/numbers.md", text) for text in estimated()),
    ]


def numbers() -> Iterator[str]:
    """What the page of numbers says of results that other pages have as well."""
    speed, calls = result("ray_speed"), result("ray_calls")["bars"]
    times = speed["bars"]["renames, times one process with 32 threads"]["measured"]
    four, one = (speed[who]["median"]["rename_seconds"] for who in ("ray_4x64_warm", "threads_32"))
    yield f"Four workers renamed {times:.1f} times as many files per second as one process"
    yield f"renamed {speed['files']:,} files in {four:.1f} s, one process with 32 threads in {one:.0f} s"
    jobs = result("spark_jobs")["jobs"]
    many, two = (jobs[f"append of {size} files, 20 ms"]["median"] for size in ("2,000", "two"))
    ours, theirs = many["ours"], many["v1"]
    yield (
        f"took {ours['seconds']:.0f} s, of which its commit was {ours['commit_seconds']:.1f} s, "
        f"where Spark's own committer took {theirs['seconds']:.0f} s"
    )
    ours, theirs = two["ours"], two["v1"]
    yield f"took {ours['seconds']:.1f} s where Spark's own committer took {theirs['seconds']:.1f} s"
    both = result("tpch")["sessions"]["local[2]"]["append of lineitem"]
    ours, theirs = (both[who]["median"] for who in ("threads", "v1"))
    yield f"took {ours['commit_seconds']:.1f} s, v1's {theirs['commit_seconds']:.1f} s"
    yield f"The whole write took {ours['seconds']:.1f} s, v1's {theirs['seconds']:.1f} s"
    s3 = result("s3_commits")
    slowest = min(one["times"] for one in s3["beside S3A"]["rounds"])
    yield f"took {slowest:.1f} times as long for 2,000 files"
    yield f"ran at {s3['commits']['4 x 64 in flight, 200 ms']['median']['of ideal']:.2f} of the ideal"
    yield beside_hadoops(result("peers")["commits"])
    yield from beside_peers()
    yield from grown()
    yield from lost()
    ten, bars = result("ten_million_entries")["runs"][3], result("ten_million_entries")["bars"]
    manifest = bars["driver bytes a manifest"]["measured"]
    linear = bars["seconds a file, all over a tenth"]["measured"]
    yield f"peaked at {ten['peak_mb']:.0f} MB for ten million files of 100,000 tasks"
    yield f"of which {manifest:,} bytes are for each manifest"
    yield f"ten million files took {ten['seconds']:.0f} s of the machine, and a file took {linear:.2f}"
    yield f"costs the driver {ten['driver_ms_a_shard']:.1f} ms"
    on_s3 = result("s3_ten_million")["runs"][1]
    yield f"On S3 it peaked at {on_s3['peak_mb']:.0f} MB for ten million files of 20,000 tasks"
    warm, cold = (
        calls[name]["measured"]
        for name in ("warm pool, 1x10, seconds", "cold on a running cluster, 1x10, seconds")
    )
    yield f"a commit of ten local files takes {warm:.2f} s"
    yield f"on a cluster that runs, it takes {cold:.1f} s"
    run = result("one_file_tasks")["run"]
    yield f"94,499 such tasks took {run['seconds']:.0f} s on four workers"
    yield f"{run['of_ideal']:.2f} times the ideal time of all its requests"
    workers = {
        n: each["median"]["renames_per_second"] for n, each in result("scaling")["workers"].items()
    }
    yield f"made {workers['8']:,.0f} renames per second where one made {workers['1']:.0f}"
    yield f"{100 * workers['8'] / workers['1'] / 8:.0f} % of eight times as many"
    yield from of_faults()


def of_faults() -> Iterator[str]:
    """What slow workers and refusals cost, and how near the simulation came to real commits."""
    slow, refused = result("straggler")["bars"], result("throttling")["bars"]
    yield f"the renames took {slow['times the ideal']['measured']:.2f} times the ideal"
    times = refused["one in a hundred refused, times the seconds"]["measured"]
    yield f"the commit took {times:.2f} times as long, though each refusal"
    used = refused["of a store's limit"]["measured"]
    yield f"used {used:.2f} of the limit"
    even = [case["median"]["of_limit"] for case in result("rate_limit")["cases"].values()]
    yield f"is used to {100 * min(even):.0f} to {100 * max(even):.0f} %"
    simulator = result("simulator")
    off = max(abs(one["simulated_to_real"] - 1) for one in simulator["points"].values())
    yield f"took the simulated time within {math.ceil(100 * off)} %"
    yield f"simulated with {simulator['published']['seconds']:.0f} s"
    real = simulator["points"]["94499x1 at 170 ms, 16 x 32 on Ray"]["median"]["seconds"]
    yield f"was made here, in {real:.0f} s"


def beside_hadoops(commits: dict[str, Any]) -> str:
    """The least and the largest ratio of both committers behind a network."""
    ratios = [
        by[OURS]["median"]["seconds"] / by[HADOOPS]["median"]["seconds"]
        for place in ("20 ms", "20 ms, 128 in flight", "the published commit")
        for by in commits[place].values()
    ]
    _, large, *_ = ratios
    return (
        f"between {100 * (1 - min(ratios)):.0f} % faster and {100 * (max(ratios) - 1):.0f} % slower "
        f"behind a network. With 32 in flight it is {100 * (large - 1):.0f} % slower for 10,000 files"
    )


def estimated() -> Iterator[str]:
    """Tables of simulated commits."""
    found = result("estimates")
    few, many = found["curves"].values()
    workers = [one["enough"]["workers"] for one in many.values()]
    yield f"it is {min(workers)} to {max(workers)} for 100 million files"
    yield f"more than {few['Google, a cold bucket']['enough']['workers']} workers gain nothing there"
    again = [one["lost driver"] / one["none"] for one in found["faults"].values()]
    yield f"in all {min(again):.1f} to {max(again):.1f} times as long"
    slow = [one["slow workers"] / one["none"] for one in found["faults"].values()]
    yield f"at most {math.ceil(100 * (max(slow) - 1))} %"
    for name, one in many.items():
        price = "none" if one["dollars"] is None else f"${one['dollars']:,.0f}"
        yield f"| {name} | {one['requests'] / 1e6:,.1f} million | {price} |"
        cells = [
            f"{each['enough']['workers']:,} | {seconds_text(each['enough']['seconds'])}"
            for each in (few[name], one)
        ]
        yield f"| {name} | {' | '.join(cells)} | {one['enough']['reason']} |"
        with_faults = [
            seconds_text(found["faults"][name][fault])
            for fault in ("none", "slow workers", "lost workers", "lost driver")
        ]
        yield f"| {name} | {' | '.join(with_faults)} |"


def on_ray() -> list[tuple[str, str]]:
    """Whole commits on Ray, from call to return."""
    run, bars = result("one_file_tasks")["run"], result("ray_calls")["bars"]
    small, medium, cold = (
        bars[name]["measured"]
        for name in (
            "warm pool, 1x10, seconds",
            "warm pool, 20x100, seconds",
            "cold on a running cluster, 1x10, seconds",
        )
    )
    job = result("raydp_job")
    pooled, own = (job[one]["median"]["commit_seconds"] for one in ("a pool", "workers of its own"))
    return [
        ("docs/operations.md", f"such tasks took {run['seconds']:.0f} s"),
        ("docs/operations.md", f"{run['of_ideal']:.2f} times the ideal time of all its requests"),
        ("docs/ray.md", f"ten local files takes {small:.2f} s from call to return"),
        ("docs/ray.md", f"one of 2,000 files {medium:.2f} s"),
        ("docs/ray.md", f"one of ten files takes {cold:.1f} s"),
        ("docs/ray.md", f"ends {pooled:.2f} s after the last task with a pool, and {own:.2f} s with"),
    ]


def beside_ray_data() -> list[tuple[str, str]]:
    """Seconds of a write of Ray Data, of those of its own writer."""
    found = result("ray_data")
    plain, one_group = (
        [f"{ratio['seconds']:.2f}" for ratio in shapes.values()] for shapes in found["ratios"].values()
    )
    in_memory, read, partitions = plain
    page = "docs/python_writers.md"
    ours, theirs = (found["shapes"]["from memory"][who]["median"] for who in ("ours", "theirs"))
    groups = theirs["row_groups"] / ours["row_groups"]
    larger = 100 * (theirs["megabytes"] / ours["megabytes"] - 1)
    return [
        (
            page,
            f"{found['megabytes_of_arrow']} MB in eight blocks took {in_memory} of the time of "
            f"`write_parquet` from memory, {read} if the rows were read and mapped first, and "
            f"{partitions} into 50 partitions",
        ),
        (page, f"makes {groups:.0f} row groups per file where"),
        (page, f"its files are {larger:.0f} % larger"),
        (page, f"the ratios were {one_group[0]}, {one_group[1]} and {one_group[2]}"),
    ]


OURS, HADOOPS = "ray_committer, threads", "Hadoop's manifest committer"
COLUMNS = (
    OURS, "ray_committer, warm pool", "ray_committer, cold", HADOOPS,
    "FileOutputCommitter v1", "FileOutputCommitter v2", "fsspec mv",
)  # fmt: skip
COUNTED = (OURS, HADOOPS, "FileOutputCommitter v1", "fsspec mv")


def beside_hadoop(commits: dict[str, Any]) -> Iterator[str]:
    """Requests and seconds of both manifest committers."""
    for place, in_flight in (("20 ms", 32), ("20 ms, 128 in flight", 128)):
        for shape, by in commits[place].items():
            local = commits["local files"][shape] if in_flight == 32 else {}
            cells = [f"{by[name]['median']['requests']:,.0f}" for name in (OURS, HADOOPS)]
            cells += [cell(by.get(name)) for by in (local, by) for name in (OURS, HADOOPS)]
            yield f"| {shape} | {in_flight} | {' | '.join(cells)} |"


def cell(found: dict[str, Any] | None) -> str:
    """Seconds of a commit; in brackets if they are computed."""
    if found is None:
        return "-"
    seconds = found["median"]["seconds"]
    text = f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}" if seconds < 1 else f"{seconds:.3g}"
    return f"({text})" if found.get("computed") else text


def beside_peers() -> Iterator[str]:
    """Seconds of all committers on all stores."""
    found = result("peers")["commits"]
    places = {
        "20 ms": "20 ms per request",
        "20 ms, 128 in flight": "20 ms, 128 in flight",
        "local files": "local files",
        "HDFS": "HDFS",
        "the published commit": "43 ms, 128 in flight",
    }
    for place, text in places.items():
        for shape, by in found[place].items():
            row = [cell(by.get(name)) for name in COLUMNS]
            yield f"| {text} | {shape} | {' | '.join(row)} |"
    for shape, by in found["20 ms"].items():
        counted = [f"{by[name]['median']['requests']:,.0f}" for name in COUNTED]
        yield f"| {shape} | {' | '.join(counted)} |"
    s3 = found["S3, 35 ms"]["20x100"]
    theirs, threads, pool = (
        s3[name]["median"]["seconds"] for name in ("S3A's magic committer", *COLUMNS[:2])
    )
    yield f"took {theirs:.1f} s for 2,000 files, ray_committer {threads:.1f} s in threads"
    yield f"and {pool:.1f} s on Ray"
    v2 = found["20 ms"]["20x500"]["FileOutputCommitter v2"]["median"]
    ours = found["20 ms"]["20x500"][OURS]["median"]["seconds"]
    yield f"{v2['seconds']:.2f} s where ray_committer took {ours:.1f} s"
    yield f"took {v2['tasks_seconds']:.0f} s before"
    small = [cell(found["HDFS"]["1x2"][name]) for name in (OURS, "FileOutputCommitter v1")]
    yield f"two files took {small[0]} s on HDFS, v1's {small[1]} s"
    published = found["the published commit"]["94,499x1"]
    of_ours, of_hadoop = (f"{published[name]['median']['seconds']:.0f}" for name in (OURS, HADOOPS))
    yield f"94,499 tasks took {of_ours} s, and Hadoop's {of_hadoop} s"
    many = [cell(found["20 ms, 128 in flight"]["20x500"][name]) for name in (*COLUMNS[:2], HADOOPS)]
    yield f"took {many[0]} s for 10,000 files, four ready workers {many[1]} s, and Hadoop's {many[2]} s"
    spark = found["Spark, 20 ms"]["200 partitions"]
    for name, one in spark.items():
        seconds = one["median"]
        yield f"| {name} | {seconds['seconds']:.1f} | {seconds['commit_seconds']:.1f} |"


def grown() -> Iterator[str]:
    """How a commit grows: the first and the last point of each series, and the exponent."""
    names = {
        "files": "files",
        "manifests": "manifests, of as many files",
        "partitions": "partitions",
        "workers": "workers, files in proportion",
    }
    for name, series in result("growth")["series"].items():
        first, last = series["points"][0], series["points"][-1]
        seconds, memory = (
            [f"{one[key]:,.{digits}f}" for one in (first, last)]
            for key, digits in (("seconds", 1), ("peak_mb of driver", 0))
        )
        fits = series.get("fits", {})
        exponents = [
            f"{fits[key]['last_exponent']:.2f}" if key in fits else "-"
            for key in ("seconds", "processor_seconds")
        ]
        between = " | ".join(f"{one} to {other}" for one, other in (seconds, memory))
        row = " | ".join(exponents)
        yield f"| {names[name]} | {first[name]:,} to {last[name]:,} | {between} | {row} |"
    workers = [f"{one['efficiency']:.2f}" for one in result("growth")["series"]["workers"]["points"][1:]]
    yield f"efficiency {', '.join(workers)}"


def lost() -> Iterator[str]:
    """What each fault costs."""
    for name, one in result("faults")["faults"].items():
        if name in FAULTS:
            median = one["median"]
            yield f"| {FAULTS[name]} | {median['seconds_lost']:.1f} | {median['times']:.2f} |"
    here, elsewhere = (
        result("faults")["faults"][name]["median"]["waited_seconds"]
        for name in ("driver", "driver-elsewhere")
    )
    yield f"the second run waits {here:.1f} s"
    yield f"has been silent for 30 s, here {elsewhere:.0f} s"


def whole_jobs() -> list[tuple[str, str]]:
    """Seconds of Spark jobs, and of their commits."""
    jobs = result("spark_jobs")["jobs"]

    def took(job: str, millis: int, digits: int) -> list[str]:
        median = jobs[f"{job} of 2,000 files, {millis} ms"]["median"]
        return [f"{median[who]['seconds']:.{digits}f}" for who in ("ours", "v1", "manifest")]

    labels = {
        "append of 2,000 files, 0 ms": "append, 0 ms",
        "dynamic of 2,000 files, 0 ms": "dynamic overwrite, 0 ms",
        "append of 2,000 files, 20 ms": "append, 20 ms",
        "dynamic of 2,000 files, 20 ms": "dynamic overwrite, 20 ms",
        "append of two files, 0 ms": "append of two files, 0 ms",
        "append of two files, 20 ms": "append of two files, 20 ms",
    }
    found = []
    for name, label in labels.items():
        taken = [jobs[name]["median"][who] for who in ("ours", "v1", "manifest", "ours on Ray")]
        cells = [f"{one['seconds']:.1f} ({one['commit_seconds']:.1f})" for one in taken]
        found.append(("docs/comparison.md", f"| {label} | {' | '.join(cells)} |"))
    local, remote = took("append", 0, 1), took("append", 20, 0)
    names = ("ray_committer", "Spark's own committer", "Hadoop's manifest committer")
    for name, fast, slow in zip(names, local, remote, strict=True):
        found.append(("README.md", f"| {name} | {fast} s | {slow} s |"))
    return found


def tables_of_tpch() -> Iterator[str]:
    """Seconds of each write, and of what comes after its last task."""
    modes = {"append": "append", "overwrite": "overwrite", "dynamic": "dynamic overwrite"}
    sessions = result("tpch")["sessions"]
    for master, committers in (("local[2]", ("v1", "threads", "deferred")), ("raydp", ("v1", "ray"))):
        for table, (mode, words) in itertools.product(("lineitem", "orders"), modes.items()):
            taken = [sessions[master][f"{mode} of {table}"][one]["median"] for one in committers]
            cells = [f"{one['seconds']:.1f} ({one['commit_seconds']:.1f})" for one in taken]
            yield f"| {table}, {words} | {' | '.join(cells)} |"


def on_s3() -> list[tuple[str, str]]:
    """Ratios of a commit on S3."""
    found, ms = result("s3_commits"), "ms of processor a completion"
    medians = [one["median"] for one in found["completions"].values()]
    alone, many = (one[f"boto3, {ms}"] / one[f"S3Store, {ms}"] for one in medians)
    at = found["commits"]["32 in flight, 35 ms"]["median"]
    times = min(one["times"] for one in found["beside S3A"]["rounds"])
    page = "docs/stores/s3.md"
    return [
        (page, f"boto3 took {alone:.0f} times"),
        (page, f"and {many:.0f} times with 32 in flight"),
        (
            page,
            f"ran at {at['of ideal']:.2f} of the ideal speed, and at {at['of bare']:.2f} of the speed",
        ),
        (page, f"took {times:.1f} times as long"),
    ]


def costs_of_a_rename() -> list[tuple[str, str]]:
    """The tables of processor time a rename, 32 in flight."""
    google = result("http_renames")["levels"]["32 in flight"]["median"]
    azure = result("adls_renames")["levels"]["32 in flight"]["median"]
    hdfs = result("hdfs_renames")["in_flight"]["32"]["median"]
    ms, completion = "ms of processor a rename", "ms of processor a completion"
    s3 = {name: one["median"] for name, one in result("s3_commits")["completions"].items()}
    rows = [
        ("Google: ray_committer", f"{google[f'GcsStore, {ms}']:.2f}"),
        ("gcsfs' `mv_file`", f"{google[f'gcsfs mv_file, {ms}']:.2f}"),
        ("Google's client, `move_blob`", f"{google[f'google-cloud-storage move_blob, {ms}']:.2f}"),
        ("Azure: ray_committer", f"{azure[f'AdlsStore, {ms}']:.2f}"),
        (
            "Microsoft's asynchronous client",
            f"{azure[f'azure-storage-file-datalake aio rename_file, {ms}']:.2f}",
        ),
        ("adlfs, a copy and a delete", f"{azure[f'adlfs copy and delete, {ms}']:.2f}"),
        ("S3: ray_committer, a completion", f"{s3['32 in flight'][f'S3Store, {completion}']:.2f}"),
        ("boto3, a completion", f"{s3['32 in flight'][f'boto3, {completion}']:.2f}"),
        ("HDFS: ray_committer over RPC", f"{hdfs['HdfsStore: ms']:.3f}"),
        ("hdfs-native's own fsspec", f"{hdfs['hdfs_native.fsspec mv: ms']:.3f}"),
        ("WebHDFS: ray_committer", f"{hdfs['WebHdfsStore: ms']:.2f}"),
        ("fsspec's `webhdfs`", f"{hdfs['fsspec webhdfs mv: ms']:.2f}"),
    ]
    note = "docs/design/003-lean-http.md"
    return [
        *(("docs/comparison.md", f"| {client} | {value} |") for client, value in rows),
        *((note, f"| {client} | {value} |") for client, value in rows[:2]),
        (note, f"| Google's `move_blob` | {rows[2][1]} |"),
        *((note, f"| {client} | {value} |") for client, value in rows[3:5]),
    ]


@pytest.mark.parametrize(("page", "text"), figures())
def test_a_page_says_what_was_measured(page: str, text: str):
    words = " ".join((ROOT / page).read_text().split())
    assert text in words
