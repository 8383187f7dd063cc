"""What `peers.py` measures, by place and shape, and what that must come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peer_committers import THREADS, WARM
from peer_hadoop import MANIFEST
from peer_jobs import Shape

NETWORK, MANY, LOCAL, HDFS, PUBLISHED, S3, SPARK = (
    "20 ms", "20 ms, 128 in flight", "local files", "HDFS", "the published commit", "S3, 35 ms",
    "Spark, 20 ms",
)  # fmt: skip
S3A = "S3A's magic committer"
IN_SPARK = {
    "v1": "Spark's default", "manifest": MANIFEST, "ours": THREADS, "ours on Ray": WARM,
}  # fmt: skip
PARTITIONS = "200 partitions"

SMALL, LARGE, ONES = SHAPES = Shape(1, 2), Shape(20, 500), Shape(2_000, 1)
EXISTING, WIDE = Shape(20, 500, existing=True), Shape(200, 500, partitions=500)
ONE_EACH, TEN_EACH, FIFTY_EACH = APART = (
    Shape(200, 1, apart=True), Shape(200, 10, apart=True), Shape(100, 50, apart=True)
)  # fmt: skip
PUBLISHED_JOB, ON_S3 = Shape(94_499, 1), Shape(20, 100)

OF_HADOOP = {
    (NETWORK, SMALL): 0.5,
    (NETWORK, ONES): 0.45,
    (MANY, ONES): 0.5,
    (NETWORK, EXISTING): 1.0,
    (MANY, EXISTING): 1.05,
    (NETWORK, LARGE): 0.10,
    (MANY, WIDE): 0.20,
    (NETWORK, ONE_EACH): 0.5,
    (NETWORK, TEN_EACH): 0.25,
    (NETWORK, FIFTY_EACH): 0.12,
    (PUBLISHED, PUBLISHED_JOB): 0.45,
    (HDFS, ONES): 0.6,
    (HDFS, EXISTING): 0.9,
    (HDFS, LARGE): 0.20,
}
"""At most this share of the time of Hadoop's manifest committer."""
REQUESTS = {(NETWORK, LARGE): 60, (NETWORK, TEN_EACH): 450, (MANY, WIDE): 1_200}

Bars = dict[str, tuple[float, str, float]]


def bars(found: Mapping[str, Any]) -> Bars:
    """What was measured, beside the bars; each compares what one run of a part has measured."""
    of_hadoop: Bars = {
        f"of Hadoop's time, {shape}, {place}": (_ratio(found, place, shape), "<=", bar)
        for (place, shape), bar in OF_HADOOP.items()
    }
    requests: Bars = {
        f"requests, {shape}, {place}": (_median(found, place, shape, "requests"), "<=", bar)
        for (place, shape), bar in REQUESTS.items()
    }
    whole: Bars = {
        f"directories that went whole, {shape}, {place}": (
            _median(found, place, shape, "whole"), ">=", shape.new_directories,
        )
        for place, shape in OF_HADOOP
        if shape.new_directories
    }  # fmt: skip
    small = _median(found, LOCAL, SMALL)
    return {
        **of_hadoop,
        **requests,
        **whole,
        f"seconds, {SMALL}, {LOCAL}": (small, "<=", 0.01),
        **_on_s3(found),
        **_in_spark(found),
    }


def _median(
    found: Mapping[str, Any], place: str, shape: object, what: str = "seconds", name: str = THREADS
) -> float:
    return float(found[place][str(shape)][name]["median"][what])


def _ratio(found: Mapping[str, Any], place: str, shape: Shape) -> float:
    ours, hadoops = (_median(found, place, shape, name=name) for name in (THREADS, MANIFEST))
    return round(ours / hadoops, 3)


def _on_s3(found: Mapping[str, Any]) -> Bars:
    s3a = _median(found, S3, ON_S3, name=S3A)
    return {
        f"S3A's time, of ours {where}": (round(s3a / _median(found, S3, ON_S3, name=name), 1), ">=", 7.5)
        for name, where in ((THREADS, "in threads"), (WARM, "on Ray"))
    }


def _in_spark(found: Mapping[str, Any]) -> Bars:
    def times(what: str) -> float:
        spark, ours = (
            _median(found, SPARK, PARTITIONS, what, name) for name in (IN_SPARK["v1"], THREADS)
        )
        return round(spark / ours, 2)

    return {
        "Spark's dynamic overwrite, its commit, of ours": (times("commit_seconds"), ">=", 10.0),
        "Spark's dynamic overwrite, end to end, of ours": (times("seconds"), ">=", 1.0),
    }
