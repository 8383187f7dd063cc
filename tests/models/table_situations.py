"""The jobs at a table that are tried together, and for each rule some that need it."""

from __future__ import annotations

from itertools import product

from ray_committer.protocol.table_entry import Isolation, WriteMode
from tests.models.table_search import TableSituation, pairs
from tests.models.table_world import APPEND, CREATE, OVERWRITE, REPLACE, REWRITE, WRITES, Plan, Rule

SERIALIZABLE, SNAPSHOT, NONE = Isolation.SERIALIZABLE, Isolation.SNAPSHOT, Isolation.NONE

WRITERS = [Plan(mode, where) for mode, where in product(WriteMode, WRITES)]
"""Jobs of every mode in every directory that declare nothing that they have read."""

READERS = [
    Plan(mode, where, (reads,), from_snapshot)
    for mode in (APPEND, CREATE, OVERWRITE, REPLACE)
    for where, reads in (
        ("p", "p"),
        ("p", "q"),
        ("p", "a"),
        ("p", ""),
        ("a/b", "p"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("", "p"),
    )
    for from_snapshot in (False, True)
    if mode is not OVERWRITE or (where, reads) in (("p", "q"), ("p", "a"), ("a/b", "p"))
]
"""Jobs that have read directories, each as it is or from a snapshot; to overwrite what was read is to
replace it."""

P = [Plan(mode, "p") for mode in WriteMode]
ALL = [Plan(mode, "") for mode in WriteMode]
BELOW = [Plan(mode, where) for mode, where in ((APPEND, "a/b"), (OVERWRITE, "a"), (REWRITE, "a"))]

A_P, O_P, RP_P, RW_P = (Plan(mode, "p") for mode in (APPEND, OVERWRITE, REPLACE, REWRITE))
FROM_P, FROM_Q = Plan(APPEND, "q", ("p",)), Plan(APPEND, "p", ("q",))


def beside(
    *plans: Plan,
    others: tuple[tuple[str, int], ...] = (),
    level: Isolation = SERIALIZABLE,
    promised: Isolation | None = None,
) -> TableSituation:
    return TableSituation(plans, others, level, promised)


NARROW = {
    "in one directory": pairs(P),
    "in the table and in a directory": [beside(*two) for two in product(ALL[::2], (A_P, O_P, RW_P))],
    "in a directory and below it": pairs(BELOW),
    "of readers": [
        beside(FROM_P, FROM_Q),
        *(beside(FROM_P, one) for one in P),
        *(beside(FROM_P._replace(from_snapshot=True), one) for one in (A_P, O_P, RW_P)),
        beside(Plan(REPLACE, "p", ("q",)), Plan(APPEND, "q")),
        beside(Plan(APPEND, "p", ("a",)), Plan(OVERWRITE, "a/b")),
        beside(Plan(OVERWRITE, "p", ("",)), Plan(APPEND, "")),
    ],
    "at the level snapshot": [beside(*two, level=SNAPSHOT) for two in product((RP_P, FROM_P), P)],
    "at no level": [beside(*two, level=NONE) for two in product((RP_P, RW_P), (A_P, O_P, RW_P))],
}
"""Pairs of jobs, each with one process and those that end the other one."""

WIDE = {
    "writers": pairs(WRITERS),
    "readers of directories and writers": [beside(*two) for two in product(READERS[::2], WRITERS)],
    "readers of snapshots and writers": [beside(*two) for two in product(READERS[1::6], WRITERS)],
    "two readers": pairs(READERS[::5]),
    "at the level snapshot": pairs([*P, *READERS[::5]], SNAPSHOT),
    "at no level": pairs([*P, *READERS[::7]], NONE),
}

COMMIT, ABORT, UNDO = ("commit", 0), ("abort", 0), ("undo", 0)
TWICE = {
    "one append": [beside(Plan(APPEND, ""), others=(COMMIT, end)) for end in (ABORT, UNDO)],
    "one overwrite": [beside(Plan(OVERWRITE, ""), others=(COMMIT, end)) for end in (ABORT, UNDO)],
    "one rewrite": [beside(Plan(REWRITE, ""), others=(COMMIT, end)) for end in (ABORT, UNDO)],
    "an append twice": [beside(A_P, O_P, others=(COMMIT,))],
    "an append undone": [beside(A_P, one, others=(UNDO,)) for one in (RP_P, RW_P)],
    "an overwrite undone": [beside(O_P, one, others=(UNDO,)) for one in (A_P, FROM_P)],
}
"""Jobs with more than one process each."""

TWICE_WIDE = {
    f"{does} of two": [
        beside(*two, others=((does, number),)) for two in product(P, P) for number in (0, 1)
    ]
    for does in ("commit", "abort", "undo")
}

PACK = ("pack", 0)
PACKED = {
    "one job and another process": [
        beside(one, others=(PACK, end)) for one in (A_P, O_P, RW_P) for end in (ABORT, UNDO, COMMIT)
    ],
    "an append and an overwrite": [beside(A_P, O_P, others=(PACK,))],
}
"""Jobs whose entries another process may put at any time after they have written a draft."""

PACKED_WIDE = {
    "an append and what it changes": [beside(one, A_P, others=(PACK,)) for one in (FROM_P, RP_P)],
    "overwrites": [beside(O_P, O_P, others=(PACK,))],
    "appends": [beside(A_P, A_P, others=(PACK,))],
    "an append and a rewrite": [beside(A_P, RW_P, others=(PACK,))],
    "in a directory and below it": [beside(*BELOW[:2], others=(PACK,))],
    "jobs that are ended": [beside(A_P, O_P, others=(PACK, end)) for end in (ABORT, UNDO, COMMIT)],
}

NEEDED = {
    Rule.LIST_AFTER_CLAIM: [beside(A_P, O_P), beside(O_P, O_P)],
    Rule.CHECK_IN_FLIGHT: [beside(A_P, O_P), beside(O_P, O_P), beside(FROM_P, FROM_Q)],
    Rule.TWO_WAY: [beside(A_P, RP_P), beside(FROM_P, O_P)],
    Rule.HOLD_UNTIL_DONE: [beside(A_P, O_P), beside(O_P, O_P)],
    Rule.ABORT_AFTER_STATE: [beside(A_P, others=(ABORT,)), beside(A_P, O_P)],
    Rule.ABORT_BEFORE_GONE: [beside(A_P, others=(ABORT,)), beside(A_P, others=(UNDO,))],
    Rule.SEAL_APPENDS: [beside(A_P, others=(UNDO,)), beside(A_P, others=(COMMIT,))],
    Rule.COMMIT_BEFORE_REMOVAL: [beside(O_P), beside(A_P, RW_P)],
    Rule.UNDONE_AT_BASE: [beside(FROM_P, O_P), beside(RP_P, O_P)],
    Rule.COUNT_ABORTED: [beside(FROM_P, A_P, others=(("undo", 1),))],
    Rule.FROM_SNAPSHOT: [beside(A_P, RW_P), beside(Plan(APPEND, "a/b"), Plan(REWRITE, "a"))],
    Rule.PREFIXES: [beside(Plan(APPEND, "a/b"), Plan(OVERWRITE, "a")), beside(A_P, Plan(OVERWRITE, ""))],
    Rule.OWN_CLAIM: [beside(O_P, others=(COMMIT,))],
    Rule.READ_REWRITES: [beside(FROM_P, RW_P)],
    Rule.REWRITE_ALWAYS: [beside(RW_P, one, level=NONE) for one in (O_P, RW_P)],
    Rule.JUDGE_DRAFTS: [beside(A_P, Plan(CREATE, "p"), others=(PACK,))],
    Rule.NOT_TWICE: [beside(A_P, others=(PACK, COMMIT))],
    Rule.NOT_AFTER_ABORT: [beside(A_P, others=(PACK, ABORT))],
    Rule.KNOW_SINCE: [beside(A_P, others=(PACK, ABORT))],
}

NOT_PROMISED = {
    "a job that has read before it was set up": [beside(FROM_P._replace(reads_early=True), O_P)],
    "what was read, at the level snapshot": [
        beside(FROM_P, FROM_Q, level=SNAPSHOT, promised=SERIALIZABLE)
    ],
    "what is replaced, at no level": [beside(RP_P, RP_P, level=NONE, promised=SNAPSHOT)],
}
"""What may go wrong although no rule is left out."""
