"""The situations that are tried, and for each rule one in which leaving it out ends wrongly."""

from __future__ import annotations

from tests.models.whole.search import Situation
from tests.models.whole.world import Layout, Option, Process, Rule

DRIVER = Process("commit", writer="driver", is_named=True)
LINE, OTHER_LINE = Process("commit", writer="line"), Process("commit", writer="other")
"""Two command lines, which were not told what the tasks have saved."""
UNDO, OTHER_UNDO = Process("undo", writer="undo"), Process("undo", writer="back")
SECOND, RETRY = Process("task", task=1), Process("task", attempt=1)
DEAD = Process("task", attempt=1, place="dies")
"""A retry that writes its files and does not save."""
REWRITER, COPIER, ODD = Process("rewriter"), Process("copier"), Process("odd")
RIVAL, RIVAL_IN_C = Process("rival", place="a"), Process("rival", place="a/c")
DROPPER, STRANGER, OVER = Process("dropper", place="a"), Process("stranger"), Process("over")
GHOST, WORKER = Process("ghost"), Process("worker")
SETUP, EARLIER, LATER = Process("setup"), Process("setup", 2), Process("setup", 1)

ONE = Layout(((("a", "a"),),))
PAIR = Layout(((("a", "a"),),), 2)
TWO = Layout(((("a", "a"), ("b", "b")),))
TWO_TASKS = Layout(((("a", "a"),), (("a", "a"),)))
NESTED = Layout(((("a", "a"), ("c", "a/c")),))
BELOW = Layout(((("c", "a/c"), ("d", "a/d")),))
TWO_SOURCES = Layout(((("a", "a"), ("A", "a")),), 2)
"""Two names that a file system takes for one, or one directory under two names."""
OWN_NAMES = Layout(((("a", "a"), ("own", "a")),), 2)


def plain(
    *processes: Process,
    layout: Layout = PAIR,
    options: str = "",
    whole: str = "",
    filled: str = "",
    there: str = "",
    **more: object,
) -> Situation:
    return Situation(
        processes,
        layout,
        frozenset(Option[one] for one in options.split()),
        whole=frozenset(whole.split()),
        filled=frozenset(filled.split()),
        there=frozenset(there.split()),
        **more,  # type: ignore[arg-type]
    )


def two_attempts(*processes: Process, layout: Layout = PAIR) -> Situation:
    """The driver was told of an attempt; another of that task has saved over its manifest."""
    known = {"saved": ((0, 1),), "staged": ((0, 0),), "driver_knows": ((0, 0),)}
    return plain(*processes, layout=layout, whole="a", **known)


SITUATIONS = {
    "a driver and a command line": plain(DRIVER, LINE, whole="a"),
    "two command lines": plain(LINE, OTHER_LINE, whole="a"),
    "one of two directories is there": plain(DRIVER, LINE, layout=TWO, filled="a", whole="b"),
    "an empty directory is there, and an undo": plain(LINE, UNDO, layout=TWO, there="a", whole="b"),
    "a driver, a command line and a rival": plain(DRIVER, LINE, RIVAL, layout=ONE),
    "a rival and an undo": plain(LINE, RIVAL, UNDO),
    "a namesake of others, and an undo": plain(LINE, STRANGER, UNDO),
    "two undos": plain(LINE, UNDO, OTHER_UNDO),
    "a driver, a command line and an undo": plain(DRIVER, LINE, UNDO, whole="a"),
    "listings are torn": plain(DRIVER, LINE, UNDO, layout=ONE, options="TORN"),
    "directories are refused": plain(LINE, UNDO, options="REFUSES"),
    "a retry dies": plain(DRIVER, DEAD, whole="a"),
    "a retry dies beside a driver and a command line": plain(DRIVER, LINE, DEAD, layout=ONE, whole="a"),
    "a retry saves": plain(LINE, RETRY, layout=ONE),
    "a retry saves beside a driver": plain(DRIVER, RETRY, layout=ONE),
    "a retry saves beside a driver and a command line": plain(DRIVER, LINE, RETRY, layout=ONE),
    "two attempts are known": two_attempts(DRIVER, LINE),
    "a file is rewritten": plain(DRIVER, LINE, REWRITER, layout=ONE),
    "a directory among files": plain(DRIVER, ODD, layout=ONE),
    "two tasks, one runs": plain(LINE, OTHER_LINE, SECOND, layout=TWO_TASKS),
    "tasks not counted, one runs": plain(
        LINE, OTHER_LINE, SECOND, layout=TWO_TASKS, options="UNTOLD", staged=((1, 0),)
    ),
    "tasks not counted, one begins": plain(LINE, OTHER_LINE, SECOND, layout=TWO_TASKS, options="UNTOLD"),
    "no answer": plain(DRIVER, LINE, GHOST, options="UNANSWERED", whole="a"),
    "no answer, and an undo": plain(DRIVER, UNDO, GHOST, options="UNANSWERED"),
    "no answer, a rival and an undo": plain(DRIVER, RIVAL, UNDO, GHOST, options="UNANSWERED"),
    "no answer, a rival, and the directory is dropped": plain(
        DRIVER, RIVAL, DROPPER, GHOST, options="UNANSWERED"
    ),
    "no answer after a power cut, and a retry dies": plain(
        LINE, OTHER_LINE, DEAD, GHOST, layout=ONE, options="UNANSWERED", is_recorded=True
    ),
    "workers": plain(DRIVER, WORKER, WORKER, layout=TWO, options="RAY", whole="a b"),
    "late workers and a command line": plain(DRIVER, LINE, WORKER, layout=TWO, options="RAY"),
    "late workers and an undo": plain(DRIVER, UNDO, WORKER, WORKER, layout=TWO, options="RAY"),
    "workers and a rival": plain(DRIVER, RIVAL, WORKER, WORKER, layout=TWO, options="RAY"),
    "a power cut": plain(LINE, OTHER_LINE, UNDO, is_recorded=True, whole="a"),
    "a power cut, and a retry dies": plain(LINE, DEAD, UNDO, layout=ONE, is_recorded=True),
    "one directory in another": plain(DRIVER, LINE, layout=NESTED, whole="a/c"),
    "two directories below a new one": plain(DRIVER, LINE, layout=BELOW, whole="a/c a/d"),
    "two directories below one of a rival": plain(DRIVER, RIVAL, UNDO, layout=BELOW, whole="a/c a/d"),
    "two sources": plain(DRIVER, LINE, layout=TWO_SOURCES),
    "names of attempts": plain(DRIVER, LINE, layout=OWN_NAMES),
    "files are renamed by handle": plain(LINE, OTHER_LINE, UNDO, options="HANDLES"),
    "a job of Hadoop's": plain(LINE, OTHER_LINE, UNDO, DEAD, layout=ONE, options="UNMARKED"),
    "a set-up, its task and a command line": plain(
        SETUP, Process("task"), LINE, layout=ONE, saved=(), is_set_up=False, whole="a"
    ),
    "an id set up again": plain(LINE, UNDO, LATER, Process("task", 1), layout=ONE),
    "a set-up before sleeps": plain(DRIVER, LINE, EARLIER, layout=ONE, whole="a"),
    "two jobs that replace": plain(DRIVER, LINE, OVER, layout=ONE, options="REPLACES"),
}
"""Those of an ordinary run of the tests."""

LARGE = {
    "two command lines and a rival": plain(LINE, OTHER_LINE, RIVAL),
    "two directories, two command lines and a rival": plain(
        LINE, OTHER_LINE, RIVAL, layout=TWO, whole="b"
    ),
    "two rivals and a command line": plain(DRIVER, LINE, RIVAL, RIVAL._replace(attempt=1), layout=ONE),
    "a rival in one of two directories": plain(DRIVER, LINE, RIVAL_IN_C, layout=NESTED),
    "a file is written again, and an undo": plain(DRIVER, LINE, COPIER, UNDO, layout=ONE),
    "two attempts are known to three": two_attempts(DRIVER, LINE, OTHER_LINE, layout=ONE),
    "directories are refused beside a driver": plain(DRIVER, LINE, UNDO, options="REFUSES"),
    "a retry dies, and no answer": plain(DRIVER, LINE, GHOST, DEAD, layout=ONE, options="UNANSWERED"),
    "a file is rewritten, and no answer": plain(
        DRIVER, LINE, GHOST, REWRITER, layout=ONE, options="UNANSWERED"
    ),
    "workers, a command line and an undo": plain(DRIVER, LINE, UNDO, WORKER, layout=TWO, options="RAY"),
}
"""Those of a run of all tests."""

NEEDED = {
    Rule.FREEZE: "a retry dies",
    Rule.LOOK_AFTER: "a retry dies",
    Rule.MANIFESTS_FIRST: "a retry saves beside a driver",
    Rule.MARK: "a power cut, and a retry dies",
    Rule.STAMPED: "a set-up before sleeps",
    Rule.MARK_FIRST: "a set-up, its task and a command line",
    Rule.UNSAVED: "tasks not counted, one runs",
    Rule.ANY_STAGING: "tasks not counted, one begins",
    Rule.EXCLUSIVE: "a directory among files",
    Rule.LEFTOVERS: "a retry dies",
    Rule.RECORDED: "two attempts are known",
    Rule.BY_PACKS: "two attempts are known",
    Rule.NEVER_OVER: "a rival and an undo",
    Rule.NEVER_INTO: "an empty directory is there, and an undo",
    Rule.THERE: "a rival and an undo",
    Rule.REFUSED: "directories are refused",
    Rule.FROM_FROZEN: "directories are refused",
    Rule.MADE_AGAIN: "no answer, a rival, and the directory is dropped",
    Rule.OWN_NAMES: "names of attempts",
    Rule.ONE_SOURCE: "two sources",
    Rule.NO_PROOF: "a driver, a command line and a rival",
    Rule.BY_NAMES: "a driver, a command line and a rival",
    Rule.AMONG_OTHERS: "no answer, a rival and an undo",
    Rule.NOT_DONE: "two command lines",
    Rule.NOT_LOST: "two command lines",
    Rule.OWN_STAGING: "two command lines",
    Rule.RENAMED: "a power cut, and a retry dies",
    Rule.NEW_NONCE: "no answer after a power cut, and a retry dies",
    Rule.OVERTAKEN: "two command lines",
    Rule.UNDO_FIRST: "a power cut, and a retry dies",
    Rule.UNDO_ALL: "two command lines",
    Rule.UNDO_MARKED: "a driver, a command line and an undo",
    Rule.UNDO_OF_MARK: "a file is rewritten",
    Rule.UNDO_BY_FILE: "a rival and an undo",
    Rule.UNDO_PROVEN: "a namesake of others, and an undo",
    Rule.UNDO_EMPTY: "a rival and an undo",
    Rule.UNDO_ABSENT: "an empty directory is there, and an undo",
    Rule.LOOK_FIRST: "two jobs that replace",
    Rule.NO_HANDLES: "files are renamed by handle",
    Rule.ONCE: "workers",
}
"""Each rule, and a situation in which leaving it out ends wrongly."""

HARMLESS = {
    Rule.NEVER_EMPTY: "a driver, a command line and a rival",
    Rule.DECLARED: "two command lines",
}
"""Rules without which no situation ends wrongly, and the one that is tried for each."""

EVERY = SITUATIONS | LARGE
