"""The stores that can be estimated, by the scheme of their URLs.

Latencies are assumptions: a bucket in the region of the cluster. Limits and prices are those that the
providers have published; a provider can change them, and raises limits on request.
"""

from __future__ import annotations

from dataclasses import replace

from ray_committer.estimate.steps import DIRECTORIES, FINISH, LOAD, MOVE, OPEN, PREPARE
from ray_committer.estimate.stores import (
    COMPLETE,
    DELETE,
    LIST,
    LOOK,
    MKDIRS,
    READ,
    RENAME,
    STATE,
    WRITE,
    Limit,
    Prices,
    Store,
)

_ABOVE = 2
"""Directories above a destination such as ``gs://bucket/a/table``: jobs are looked for in each."""
_ON_FILES = {OPEN: 1, LOAD: 0, PREPARE: 3, DIRECTORIES: 0, MOVE: 0, FINISH: 7}
_ONCE_ON_FILES = {LIST: 5 + _ABOVE, READ: 2, WRITE: 3, STATE: 6, LOOK: 1, DELETE: 3}

FILE = Store(
    name="local files",
    latency=0.0,
    client=0.0,
    once=_ONCE_ON_FILES,
    rounds=_ON_FILES,
    is_local=True,
    listing_is_cheap=True,
)

HDFS = replace(
    FILE,
    name="HDFS",
    latency=0.002,
    client=56e-6,
    is_local=False,
    page=1000,
    weights={WRITE: 2},
)

ADLS = Store(
    name="Azure Data Lake Storage",
    latency=0.050,
    client=216e-6,
    once=_ONCE_ON_FILES,
    rounds=_ON_FILES,
    page=5000,
    weights={WRITE: 2},
    limit=Limit(
        reads=20_000,
        writes=20_000,
        are_one=True,
        name="the 20,000 requests per second of the account",
        source="learn.microsoft.com/azure/storage/common/scalability-targets-standard-account; in some "
        "regions 40,000",
    ),
    prices=Prices(
        {RENAME: 0.00715, MKDIRS: 0.00715, WRITE: 0.0143, STATE: 0.00715, LIST: 0.00715}
        | {READ: 0.00057, LOOK: 0.00057},
        "2025",
        "Microsoft's sample prices of the Data Lake Storage endpoint, hot tier "
        "(learn.microsoft.com/azure/storage/blobs/blob-storage-estimate-costs)",
    ),
)

GCS = Store(
    name="Google Cloud Storage",
    latency=0.050,
    client=135e-6,
    once={LIST: 6 + _ABOVE, READ: 2, WRITE: 2, STATE: 4, LOOK: 1, DELETE: 6},
    rounds={**_ON_FILES, PREPARE: 2, FINISH: 15},
    page=1000,
    has_directories=False,
    moves_directories=False,
    copies_manifests=True,
    names_a_task=3,
    deletes_at_once=100,
    deletions_at_once=4,
    limit=Limit(
        reads=5_000,
        writes=1_000,
        doubles=1200.0,
        name="the 1,000 writes per second of the bucket, which double every 20 min",
        source="cloud.google.com/storage/docs/request-rate",
    ),
    prices=Prices(
        {RENAME: 0.005, LIST: 0.005, WRITE: 0.005, STATE: 0.005, READ: 0.0004, LOOK: 0.0008},
        "2025",
        "Standard storage in one region (cloud.google.com/storage/pricing-examples); a move is assumed "
        "to be a Class A operation",
    ),
)

S3 = Store(
    name="Amazon S3",
    latency=0.050,
    client=247e-6,
    once={LIST: 4 + _ABOVE, READ: 2, WRITE: 1, STATE: 4, DELETE: 1},
    rounds={**_ON_FILES, OPEN: 2, PREPARE: 2, FINISH: 5},
    move=COMPLETE,
    page=1000,
    listed_a_task=2,
    listings=3,
    has_directories=False,
    moves_directories=False,
    names_a_task=2,
    deletes_at_once=1000,
    limit=Limit(
        reads=5_500,
        writes=3_500,
        name="the 3,500 writes per second of the prefix",
        source="docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html; S3 splits a "
        "prefix under load",
    ),
    prices=Prices(
        {COMPLETE: 0.005, LIST: 0.005, WRITE: 0.005, STATE: 0.005, READ: 0.0004},
        "2025",
        "S3 Standard in us-east-1",
    ),
)

STORES = {"file": FILE, "hdfs": HDFS, "abfs": ADLS, "gs": GCS, "s3": S3}
