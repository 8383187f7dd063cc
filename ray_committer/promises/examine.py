"""Check a destination: its store, then the processes that would commit to it, then Spark.

The store is checked on the doctor's own files: one line per promise that a commit needs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from ray_committer.errors import RayCommitterError
from ray_committer.executors.choose import ExecutorName
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.options import CommitOptions
from ray_committer.promises.all import promises_of
from ray_committer.promises.lines import Diagnosis, Line, Verdict
from ray_committer.promises.network_lines import examine_processes
from ray_committer.promises.promise import BrokenPromiseError, Promise, WeakPromiseError
from ray_committer.promises.ray_lines import examine_ray
from ray_committer.promises.scratch import Scratch
from ray_committer.promises.spark_lines import examine_spark
from ray_committer.promises.upload_lines import rights, upload_lines
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore, until_answered

RETRY_SECONDS = 20.0
ROUNDS = 20
SLOW_SECONDS = 1.0


def examine(
    store: StoreOperations, destination: str, executor: ExecutorName, options: CommitOptions
) -> Diagnosis:
    """Check everything that a commit to the directory `destination` of `store` depends on."""
    shown = without_password(f"{store.spec.scheme}://{store.spec.authority}{destination}")
    lines = [
        _what_it_is(store, shown),
        *_examine_in_scratch(store, destination, executor, options),
        _costs(store),
        *examine_spark(),
    ]
    return Diagnosis(destination, tuple(lines))


def refused(destination: str, what: str, advice: str = "") -> Diagnosis:
    """Return the diagnosis of a store that cannot be committed to."""
    return Diagnosis(destination, (Line("store", Verdict.FAILED, what, advice),))


def _examine_in_scratch(
    store: StoreOperations, destination: str, executor: ExecutorName, options: CommitOptions
) -> list[Line]:
    """Check everything in a scratch directory, which is then removed."""
    permits = Permits(RateLimit(options.max_requests_per_second), "doctor", is_here=True)
    guarded = GuardedStore(store, permits, retry_seconds=RETRY_SECONDS)
    # A repeated deletion finds nothing, which would look like a broken promise.
    once = GuardedStore(store, permits, retry_seconds=0.0)
    scratch = Scratch(guarded, destination)
    promises = promises_of(guarded)
    uploads = guarded.has(StoreOperations.publish)
    lines = [_safely("rights", partial(rights, guarded, scratch.path))] if uploads else []
    lines.append(_safely("write", scratch.make))
    try:
        if lines[-1].verdict is Verdict.OK:
            checks = upload_lines(store, scratch, destination) if uploads else {}
            lines += [_safely(name, check) for name, check in checks.items()]
            lines += [
                _safely(promise.name, partial(_keeps, promise, once, scratch)) for promise in promises
            ]
            lines.append(_safely("latency", partial(_latency, scratch)))
            lines += examine_processes(scratch)
            lines += examine_ray(scratch, store.spec, executor, options)
    finally:
        # Also after Ctrl-C: nothing of the doctor may stay at a destination.
        lines.append(_safely("clean-up", scratch.remove))
    return lines


def _what_it_is(store: StoreOperations, shown: str) -> Line:
    """Report which store it is, and whether it is known to rename safely."""
    if store.capabilities.risk is not None:
        advice = "use a store that is known to rename safely"
        return Line("store", Verdict.WARNING, store.capabilities.risk, advice)
    if store.has(StoreOperations.publish):
        how = "uploads are completed on conditions, and nothing is copied or renamed"
        return Line("store", Verdict.OK, f"{shown}: {how}")
    return Line("store", Verdict.OK, f"{shown}: renames are atomic, conditional and never copy")


def _costs(store: StoreOperations) -> Line:
    """Report settings of the store that make a commit more expensive than necessary."""
    if store.capabilities.risk is not None:
        return Line("costs", Verdict.NOTE, "not checked: it is not known what this store bills")
    if not store.has(StoreOperations.cost_warnings):
        return Line("costs", Verdict.OK, "no setting of such a store makes a commit more expensive")
    try:
        warnings = store.cost_warnings()
    except OSError as e:
        what = f"the store's settings could not be read ({_words(e)})"
        return Line("costs", Verdict.WARNING, what, "check soft delete and versioning yourself")
    if warnings:
        return Line("costs", Verdict.WARNING, "; ".join(warnings))
    return Line("costs", Verdict.OK, "neither soft delete nor versioning doubles the cost of a commit")


def _safely(name: str, line: Callable[[], Line]) -> Line:
    """Return the line of a check, also if it fails."""
    try:
        return line()
    except WeakPromiseError as e:
        return Line(name, Verdict.WARNING, e.what, e.advice)
    except BrokenPromiseError as e:
        return Line(name, Verdict.FAILED, e.what, e.advice)
    except PermissionError as e:
        advice = "grant permission to read, write, rename and delete below the destination"
        return Line(name, Verdict.FAILED, _words(e), advice)
    except OSError as e:
        return Line(name, Verdict.FAILED, _words(e), "fix that and run the same command")
    except RayCommitterError as e:
        return Line(name, Verdict.FAILED, e.what, e.advice)


def _words(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error} ({type(error).__name__})"


def _keeps(promise: Promise, once: StoreOperations, scratch: Scratch) -> Line:
    unmet = promise.unmet(scratch.store)
    if unmet is not None:
        verdict = Verdict.NOTE if unmet.advice else Verdict.OK
        return Line(promise.name, verdict, unmet.otherwise, unmet.advice)
    return Line(
        promise.name,
        Verdict.OK,
        until_answered(lambda: promise.check(replace(scratch.directory(promise.name), store=once))),
    )


def _latency(scratch: Scratch) -> Line:
    """Measure the milliseconds of a rename and of a listing, one at a time."""
    sandbox = scratch.directory("latency")
    ends = (sandbox.put("a", b"1"), sandbox.at("b"))
    if sandbox.store.has(StoreOperations.publish):
        what, changes = "write", [_seconds(sandbox.store.write, ends[0], b"1") for _ in range(ROUNDS)]
    else:
        what = "rename"
        changes = [_seconds(sandbox.store.rename, ends[n % 2], ends[1 - n % 2]) for n in range(ROUNDS)]
    lists = [_seconds(sandbox.store.list_status, scratch.path) for _ in range(ROUNDS)]
    measured = f"{what} {spread(changes)}, list {spread(lists)}"
    if median(changes) > SLOW_SECONDS or median(lists) > SLOW_SECONDS:
        return Line("latency", Verdict.WARNING, measured, "run the commit closer to the store")
    return Line("latency", Verdict.OK, measured)


def _seconds(request: Callable[..., object], *paths: str | bytes) -> float:
    started = time.monotonic()
    request(*paths)
    return time.monotonic() - started


def spread(seconds: list[float]) -> str:
    """Return median and 95th percentile in milliseconds."""
    p95 = sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]
    return f"{1000 * median(seconds):.2f} ms (p95 {1000 * p95:.2f})"
