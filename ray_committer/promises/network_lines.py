"""Doctor checks of a network file system: changes by other processes and nodes are listed at once."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ray_committer.errors import RayCommitterError
from ray_committer.promises.lines import Line, Verdict
from ray_committer.promises.scratch import Scratch
from ray_committer.protocol.paths import join
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import open_store

if TYPE_CHECKING:
    from ray_committer.executors.ray.survey import Survey

PROCESSES, NODES = "listings of others", "ray lists what others do"

T = TypeVar("T")

_MAKE = "import sys; open(sys.argv[1], 'x').close()"
_SECONDS = 60.0
_ADVICE = (
    "mount it without a cache of listings (NFS: actimeo=0,lookupcache=none), or run no other job at "
    "the same time as one that replaces data"
)


def examine_processes(scratch: Scratch) -> list[Line]:
    """List a directory, let another process create a file there, and list it again; no line if the
    directory is not on a network file system."""
    kind = scratch.store.network_file_system(scratch.path)
    if kind is None:
        return []
    directory = scratch.directory("processes").path
    _names(scratch.store, directory)
    command = [sys.executable, "-c", _MAKE, join(directory, "other")]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if made.returncode != 0:
        what = f"another process could not create a file: {made.stderr.strip().rpartition(chr(10))[2]}"
        return [Line(PROCESSES, Verdict.FAILED, what, "fix that and run the same command")]
    if "other" not in _names(scratch.store, directory):
        what = f"{kind}: a file that another process had created was not listed"
        return [Line(PROCESSES, Verdict.FAILED, what, _ADVICE)]
    what = f"{kind}, a network file system: a file of another process of this machine was listed at once"
    advice = (
        "check it from two machines, with --executor ray; run no other job at the same time as one that "
        "replaces data"
    )
    return [Line(PROCESSES, Verdict.WARNING, what, advice)]


def examine_nodes(
    scratch: Scratch, spec: StoreSpec, ask: Callable[[Callable[[], Any]], Survey]
) -> list[Line]:
    """Let every node create a file in a directory and list it; when all have, list it again on every
    node and in this process. No line if it is not on a network file system. `ask` asks every node."""
    kind = scratch.store.network_file_system(scratch.path)
    if kind is None:
        return []
    sandbox = scratch.directory("nodes")
    directory = sandbox.path
    _names(scratch.store, directory)
    first = ask(partial(make_and_list, spec, directory))
    made = {
        name for answer in first.answers if isinstance(answer.answer, tuple) for name in answer.answer
    }
    missed = _missed(_names(scratch.store, directory), made)
    sandbox.put("driver", b"")
    second = ask(partial(list_names, spec, directory))
    blind = [
        f"{answer.node}: {answer.error or answer.answer}"
        for answer in first.answers
        if not isinstance(answer.answer, tuple)
    ]
    blind += [f"this process: {missed}"] if missed else []
    blind += [
        f"{answer.node}: {words}"
        for answer in second.answers
        if (words := answer.error or _missed(answer.answer, {*made, "driver"}))
    ]
    if blind:
        return [Line(NODES, Verdict.FAILED, f"{kind}: {'; '.join(blind)}", _ADVICE)]
    count = len(second.answers)
    if count < 2:
        what, advice = f"{kind}: {count} node has CPUs", "check it from two nodes"
        return [Line(NODES, Verdict.WARNING, what, advice)]
    return [
        Line(NODES, Verdict.OK, f"{kind}: a file of each of {count} nodes was listed by all at once")
    ]


def make_and_list(spec: StoreSpec, directory: str) -> tuple[str, ...] | str:
    """On a node: create a file, list its directory, and return its name; or return what is wrong."""

    def make(store: StoreOperations) -> tuple[str, ...]:
        name = f"node-{uuid.uuid4()}"
        store.write(join(directory, name), b"")
        _names(store, directory)
        return (name,)

    return or_words(spec, make)


def list_names(spec: StoreSpec, directory: str) -> tuple[str, ...] | str:
    """On a node: return the names in a directory, or what is wrong."""
    return or_words(spec, lambda store: _names(store, directory))


def or_words(spec: StoreSpec, ask: Callable[[StoreOperations], T]) -> T | str:
    """On a node: return what `ask` finds on the store there, or what is wrong."""
    try:
        return ask(open_store(spec))
    except (OSError, RayCommitterError) as e:
        return f"{type(e).__name__}: {e}"


def _names(store: StoreOperations, directory: str) -> tuple[str, ...]:
    return tuple(status.name for status in store.list_anew(directory))


def _missed(names: object, wanted: Iterable[str]) -> str:
    """Describe the names that a listing lacks, or return the text that is there instead."""
    if not isinstance(names, tuple):
        return str(names)
    missed = set(wanted).difference(names)
    return f"did not list {len(missed)} files that others had created" if missed else ""
