"""All ways in which an overwrite of one partition and a rival can take turns, request by request.

The overwrite is a job of the table ``T``. It replaces what is in the partition ``P``, below a directory
``M`` of the table. The rival was, or will be, set up at one of the three, and writes two files to ``P``.
Each step is one request, and a state holds what both know and what is in the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

OURS, OLD, FIRST, SECOND = "ours", "old", "first", "second"


class At(StrEnum):
    """Where the rival is set up."""

    TABLE = "T"
    MIDDLE = "M"
    PARTITION = "P"


class Phase(StrEnum):
    """A job's state, as other jobs read it."""

    OPEN = "open"
    DECLARED = "declared"
    RECORDED = "recorded"
    SEALED = "sealed"
    COMMITTED = "committed"


BEGUN = (Phase.DECLARED, Phase.RECORDED, Phase.SEALED)
ASKING = ("ask", "parent", "page", "part two")
"""The requests that show a ``_temporary``; of a listing in parts, only one of them does."""

RIGHT = ("declare", "look", "parent", "page", "record", "put", "seal", "remove", "end")
"""An overwrite whose partition is listed by one page."""
IN_PARTS = (
    "declare",
    "look",
    "parent",
    "ask",
    "part one",
    "part two",
    "record",
    "put",
    "seal",
    "remove",
)
"""An overwrite that lists its partition in parts, and asks for jobs there before."""


class State(NamedTuple):
    """What is in the store, where each of the two is, and what it has seen."""

    files: frozenset[str] = frozenset({OLD})
    has_rival: bool = False
    """The rival's ``_temporary`` is there."""
    step: int = 0
    phase: Phase = Phase.OPEN
    listed: frozenset[str] = frozenset()
    is_seen: bool = False
    """This round has seen a ``_temporary`` below the table."""
    is_below: bool = False
    """The next look also goes to where that was seen."""
    rival_step: int = 0
    rival_phase: Phase = Phase.OPEN
    rival_listed: frozenset[str] = frozenset()


def wrong_ends(
    steps: Sequence[str], at: At, *, replaces: bool, looks_again: bool = True
) -> list[frozenset[str]]:
    """The files that both jobs leave, committed one and the other, where no order of the two does that.
    `replaces`: the rival, too, overwrites. Without `looks_again` the job does not look below."""
    first, second = {OURS}, {FIRST, SECOND}
    allowed = [first, second] if replaces else [first, first | second]
    return [end for end in _ends(steps, at, replaces, looks_again) if end not in allowed]


def _ends(steps: Sequence[str], at: At, replaces: bool, looks_again: bool) -> Iterator[frozenset[str]]:
    reached, waiting = {State()}, [State()]
    while waiting:
        state = waiting.pop()
        after = [*_step(state, steps, at, looks_again), *_rival(state, replaces)]
        if not after:
            yield state.files
        fresh = [one for one in after if one not in reached]
        reached.update(fresh)
        waiting += fresh


def _step(state: State, steps: Sequence[str], at: At, looks_again: bool) -> Iterator[State]:
    """The next request of the job, if it has not ended."""
    if state.step == len(steps):
        return
    name, then = steps[state.step], state._replace(step=state.step + 1)
    is_rival_here = state.has_rival and {"parent": At.MIDDLE}.get(name, At.PARTITION) == at
    if name in ASKING:
        then = then._replace(is_seen=state.is_seen or is_rival_here)
    match name:
        case "declare":
            yield then._replace(phase=Phase.DECLARED)
        case "look":
            where = (At.TABLE, At.MIDDLE, At.PARTITION) if state.is_below else (At.TABLE,)
            yield state if at in where and state.rival_phase in BEGUN else then
        case "ask" | "parent":
            yield then
        case "page":
            yield then._replace(listed=state.files)
        case "part one":
            yield then._replace(listed=state.files - {SECOND})
        case "part two":
            yield then._replace(listed=state.listed | (state.files & {SECOND}))
        case "record" if looks_again and state.is_seen != state.is_below:
            again = steps.index("look")
            yield state._replace(step=again, is_below=state.is_seen, is_seen=False)
        case "record":
            yield then._replace(phase=Phase.RECORDED)
        case "put":
            yield then._replace(files=state.files | {OURS})
        case "seal":
            yield then._replace(phase=Phase.SEALED)
        case "remove":
            yield then._replace(files=state.files - state.listed)
        case "end":
            yield then._replace(phase=Phase.COMMITTED)


def _rival(state: State, replaces: bool) -> Iterator[State]:
    """The next request of the rival, which looks at the jobs above it."""
    then = state._replace(rival_step=state.rival_step + 1)
    match state.rival_step:
        case 0:
            yield then._replace(has_rival=True)
        case 1:
            yield then._replace(rival_phase=Phase.DECLARED)
        case 2:
            passes = state.phase is Phase.SEALED and not replaces
            if state.phase in BEGUN and not passes:  # it gives way
                yield state._replace(rival_step=1, rival_phase=Phase.OPEN)
            else:
                yield then
        case 3:
            yield then._replace(rival_listed=state.files if replaces else frozenset())
        case 4:
            yield then._replace(rival_phase=Phase.RECORDED)
        case 5:
            yield then._replace(files=state.files | {FIRST})
        case 6:
            yield then._replace(files=state.files | {SECOND})
        case 7:
            yield then._replace(rival_phase=Phase.SEALED, files=state.files - state.rival_listed)
        case 8:
            yield then._replace(rival_phase=Phase.COMMITTED, has_rival=False)
