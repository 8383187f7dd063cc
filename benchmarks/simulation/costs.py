"""What the steps of a commit cost, as measured by `benchmarks`, each cost with its source: those of
`jobs/estimate.py`, and some more.

Times of processors are those of the machine that measured them. Another one may take half of that, or
twice as much: it matters only where the driver or the processors are what a commit waits for.
"""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.jobs import estimate


@dataclass(frozen=True, slots=True)
class Cost:
    """A number of seconds or bytes; `source` is a file of ``benchmarks/results`` and a path in it, or a
    sentence. The number is `factor` times the one that is there."""

    value: float
    source: str
    factor: float = 1.0


MICRO = 1e-6

RENAME = Cost(estimate.RENAME_SECONDS, "rename_cpu: waiting.median.microseconds_a_file", MICRO)
"""Processor time of a rename that waits, with its event and statistics, without the store's client."""

LOCAL_RENAME = Cost(estimate.LOCAL_RENAME_SECONDS, "rename_cpu: local.median.microseconds_a_file", MICRO)
"""The same with the kernel's own work, for files of this machine."""

WORKER_START = Cost(estimate.START_SECONDS, "ray_calls: cold, local files.1x10.median.seconds")
"""Until the first worker on Ray is ready, on a cluster that runs."""

DRIVER_CALL = Cost(estimate.CALL_SECONDS, "ten_million_entries: runs.3.driver_ms_a_shard", 1e-3)
"""Processor time of the driver for a call of a worker on Ray: to hand it out, and for its result."""

LOADED_MANIFEST = Cost(
    estimate.MANIFEST_SECONDS,
    "ten_million_entries: load_seconds of 100,000 tasks of a file, on two cores",
)
"""Processor time to read and check a manifest, on a worker."""

LISTED = Cost(estimate.LISTING_SECONDS, "one_file_tasks: processor_seconds, less loads and renames")
"""Processor time to list a directory, and to compare what is there."""

PACKED_FILE = Cost(estimate.PACK_SECONDS, "simulator: a validation of 4,000 files by one thread")
"""Processor time to pack a file for the validation."""

LOADED_FILE = Cost(estimate.FILE_SECONDS, "ten_million_entries: the same of 10,000,000 files, less that")
"""More of it for each file of the manifest."""

THREAD_CALL = Cost(0.3e-3, "assumed: a fifth of that on Ray, since nothing is pickled or sent")
"""Processor time of a call where threads of the driver do the work."""

REQUEST = Cost(
    estimate.REQUEST_SECONDS, "rename_cpu: what a wait of 20 ms takes longer, with 32 at a time"
)
"""How much later than the store answers a thread goes on."""

STAGE = Cost(
    estimate.STAGE_SECONDS,
    "ray_calls: what 200 files take longer on warm workers than in threads, by four stages",
)
"""The beginning of a stage on Ray: the work is put in the object store, workers open what they need."""

CALL_ON_THE_WAY = Cost(0.6e-3, "a call of an actor of Ray, and its answer")
"""How long a call is on its way to a worker."""

MANIFEST_BYTES = Cost(350, "a manifest of Spark's names")
"""Bytes of a manifest for each file."""

LOSS_SEEN = Cost(1.0, "a worker that is killed, until its call fails")
"""Until the driver knows that a worker is lost."""

SILENCE = Cost(30.0, "docs/protocol.md: how old the last sign of life of a process at work can be")
"""How long a second run waits for the first one that has died on another machine."""
