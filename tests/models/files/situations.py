"""The situations that are tried, and for each rule one in which leaving it out ends wrongly."""

from __future__ import annotations

from tests.models.files.search import Situation
from tests.models.files.world import Option, Plan, Process, Rule

DRIVER = Process("commit", 0, "collect", writer="driver", has_messages=True)
LINE, OTHER_LINE = Process("commit", writer="line"), Process("commit", writer="other")
"""Two command lines, which have no messages."""
ABORT, UNDO = Process("abort"), Process("undo")
AGAIN = Process("setup", 1, writer="later")
RETRY = Process("task", task=0, attempt=1)
FIRST, SECOND = Process("task", task=0), Process("task", task=1)
SECOND_RETRY = Process("task", task=1, attempt=1)
OF_AGAIN = Process("task", 1)
REMOVER = Process("remover", task=0, attempt=1)
TRAILER = Process("trailer")

ALL, ONE = ((0, 0), (1, 0)), ((0, 0),)


def plain(
    *processes: Process,
    saved: tuple[tuple[int, int], ...] = ALL,
    staged: tuple[tuple[int, int], ...] = (),
    plan: Plan | None = None,
    options: str = "",
) -> Situation:
    return Situation(
        processes, plan or Plan(), frozenset(Option[one] for one in options.split()), saved, staged
    )


def again(*processes: Process, saved: tuple[tuple[int, int], ...] = ONE) -> Situation:
    """A job of one task, whose id is set up again once it is gone."""
    return plain(*processes, AGAIN, OF_AGAIN, saved=saved, plan=Plan(1))


SITUATIONS = {
    "a driver and a command line": plain(DRIVER, LINE),
    "a driver and a retry beside the first attempt": plain(DRIVER, FIRST, RETRY, saved=((1, 0),)),
    "a driver that refuses, and a retry": plain(
        DRIVER, FIRST, RETRY, saved=((1, 0),), options="REFUSES"
    ),
    "a driver, a command line and a late retry": plain(DRIVER, LINE, RETRY),
    "two command lines and a late retry": plain(LINE, OTHER_LINE, RETRY),
    "two command lines and an abort": plain(LINE, OTHER_LINE, ABORT),
    "attempts of two files, an undo": plain(LINE, UNDO, plan=Plan(2, 2)),
    "attempts of two files, a retry": plain(LINE, FIRST, RETRY, saved=((1, 0),), plan=Plan(2, 2)),
    "an undo and a late retry": plain(DRIVER, UNDO, RETRY),
    "tasks not counted, one runs": plain(LINE, SECOND, saved=ONE, staged=((1, 0),), options="UNTOLD"),
    "tasks not counted, one runs twice": plain(
        LINE, SECOND, SECOND_RETRY, saved=ONE, staged=((1, 0),), options="UNTOLD"
    ),
    "tasks not counted, one begins": plain(LINE, OTHER_LINE, SECOND, saved=ONE, options="UNTOLD"),
    "tasks not counted, and Hadoop's": plain(
        LINE, OTHER_LINE, SECOND, saved=ONE, options="UNTOLD HADOOPS"
    ),
    "a flat store, tasks not counted": plain(LINE, OTHER_LINE, SECOND, saved=ONE, options="UNTOLD FLAT"),
    "a message is lost": plain(DRIVER, LINE, SECOND, saved=ONE, options="PARTIAL"),
    "messages are lost, and a retry": plain(DRIVER, FIRST, SECOND, RETRY, saved=(), options="PARTIAL"),
    "files of a late retry are removed": plain(LINE, REMOVER, RETRY),
    "a driver, files of a late retry are removed": plain(DRIVER, REMOVER, RETRY),
    "a file after the manifest, and a retry": plain(LINE, TRAILER, RETRY),
    "a driver, and a file after the manifest": plain(DRIVER, TRAILER),
    "files are frozen, a driver, a command line and a late retry": plain(
        DRIVER, LINE, RETRY, options="FROZEN_TASKS"
    ),
    "files are frozen, tasks not counted, one runs twice": plain(
        LINE, SECOND, SECOND_RETRY, saved=ONE, staged=((1, 0),), options="UNTOLD FROZEN_TASKS"
    ),
    "an id set up again, an abort": again(LINE, ABORT),
    "an id set up again, an undo": again(LINE, UNDO),
    "an id set up again, a late attempt of its number": again(ABORT, FIRST, saved=()),
    "an id set up again, a late retry": again(LINE, RETRY),
    "an id set up again, two command lines": again(LINE, OTHER_LINE),
    "a flat store, a driver and a command line": plain(DRIVER, LINE, options="FLAT"),
    "a flat store, an undo and a late retry": plain(LINE, UNDO, RETRY, options="FLAT"),
    "a flat store, two command lines and a late retry": plain(LINE, OTHER_LINE, RETRY, options="FLAT"),
}
"""Those of an ordinary run of the tests."""

LARGE = {
    "a driver, a command line and two attempts": plain(DRIVER, LINE, FIRST, RETRY, saved=((1, 0),)),
    "a driver that refuses, a command line and two attempts": plain(
        DRIVER, LINE, FIRST, RETRY, saved=((1, 0),), options="REFUSES"
    ),
    "a driver and two attempts of each task": plain(
        DRIVER, FIRST, RETRY, SECOND, SECOND_RETRY, saved=()
    ),
    "two command lines, an undo and a late retry": plain(LINE, OTHER_LINE, UNDO, RETRY),
    "a driver, a command line, an abort and a late retry": plain(DRIVER, LINE, ABORT, RETRY),
    "a driver, a command line, a remover and a late retry": plain(DRIVER, LINE, REMOVER, RETRY),
    "a message is lost, and a retry": plain(DRIVER, LINE, SECOND, RETRY, saved=ONE, options="PARTIAL"),
    "tasks not counted, two command lines, one runs twice": plain(
        LINE, OTHER_LINE, SECOND, SECOND_RETRY, saved=ONE, staged=((1, 0),), options="UNTOLD"
    ),
    "a flat store, a driver, a command line and two attempts": plain(
        DRIVER, LINE, FIRST, RETRY, saved=((1, 0),), options="FLAT"
    ),
    "an id set up again, two aborts and a late attempt": again(ABORT, ABORT, FIRST, saved=()),
    "an id set up again, a driver, a command line and a late retry": again(DRIVER, LINE, RETRY),
    "an id set up again, a command line, an undo and a late retry": again(LINE, UNDO, RETRY),
}
"""Those of a run of all tests."""

NEEDED = {
    Rule.UNIQUE: "a driver and a retry beside the first attempt",
    Rule.OF_ONE_JOB: "an id set up again, a late attempt of its number",
    Rule.BY_NAME: "a driver and a retry beside the first attempt",
    Rule.TRIED: "a driver and a retry beside the first attempt",
    Rule.LOOK_AGAIN: "a flat store, tasks not counted",
    Rule.STAMP: "an id set up again, a late attempt of its number",
    Rule.LISTING: "a driver and a retry beside the first attempt",
    Rule.NO_MORE: "a message is lost",
    Rule.LISTED_FIRST: "tasks not counted, one runs twice",
    Rule.FREEZE: "tasks not counted, and Hadoop's",
    Rule.REPLACED: "a driver and a retry beside the first attempt",
    Rule.PACKS_FIRST: "a driver and a command line",
    Rule.OWN_NAMES: "a driver and a command line",
    Rule.OWN_PACKS: "a driver, a command line and a late retry",
    Rule.BESIDE: "an id set up again, an abort",
    Rule.FROM_PACKS: "a flat store, an undo and a late retry",
    Rule.SOURCES: "files of a late retry are removed",
    Rule.AFTER_FREEZE: "files of a late retry are removed",
    Rule.TOKENS: "a file after the manifest, and a retry",
    Rule.UNSAVED: "tasks not counted, one runs",
    Rule.UNSAVED_FIRST: "tasks not counted, one runs",
    Rule.SOURCE_FIRST: "attempts of two files, an undo",
    Rule.LOOK_INSIDE: "an id set up again, two command lines",
}
"""Each rule, and a situation in which leaving it out ends wrongly."""
EVERY = SITUATIONS | LARGE
