"""The situations that are tried, and for each rule one in which leaving it out ends wrongly."""

from __future__ import annotations

from tests.models.search import Situation
from tests.models.world import Option, Plan, Rule, old_files

BOTH = ("p1", "p2")
APPEND = Plan(BOTH)
OVERWRITE = Plan(BOTH, BOTH)
PARTITION = Plan(("p1",), ("p1",))
ERROR = Plan(BOTH, BOTH, wants_none=True)
RIGHT = Plan(("p2", "p3"), ("p2", "p3"))
APPEND_RIGHT = Plan(("p2", "p3"))
APPEND_OUTER = Plan(("p1", "p3"))
LIKE_OLD = Plan(("p1",), namesakes=("p1",))
SAME_NAME = Plan(BOTH, BOTH, namesakes=("p1",))

COMMIT, OTHER_COMMIT, THIRD_COMMIT = ("commit", 0), ("commit", 1), ("commit", 2)
ABORT, UNDO, TASK, VACUUM = ("abort", 0), ("undo", 0), ("task", 0), ("vacuum", 0)


def plain(plans: tuple[Plan, ...], *processes: tuple[str, int], options: str = "") -> Situation:
    old = old_files(()) if ERROR in plans else old_files(("p1", "p2", "p3") if _is_wide(plans) else BOTH)
    return Situation(plans, processes, frozenset(Option[one] for one in options.split()), old)


def _is_wide(plans: tuple[Plan, ...]) -> bool:
    return any("p3" in plan.writes for plan in plans)


def again(plan: Plan) -> tuple[Plan, Plan]:
    """A job, and another that is set up under its id."""
    return plan._replace(id="again"), plan._replace(id="again", is_later=True)


def attempts(plan: Plan, *, is_later: bool) -> tuple[Plan, Plan]:
    """Two attempts of a job."""
    return plan._replace(id="twice"), plan._replace(id="twice", attempt=1, is_later=is_later)


APPEND_BELOW = Plan(("p1",), id="below", is_later=True, is_below=True)
BELOW = Plan(("p1",), ("p1",), id="below", is_later=True, is_below=True)
"""An overwrite of a partition that is set up there."""

SITUATIONS = {
    "an undo and a late task": plain((APPEND,), COMMIT, UNDO, TASK),
    "two committers and a late task": plain((APPEND,), COMMIT, COMMIT, TASK),
    "two committers and an abort": plain((APPEND,), COMMIT, COMMIT, ABORT),
    "two committers and an undo": plain((OVERWRITE,), COMMIT, COMMIT, UNDO),
    "an append and an overwrite": plain((APPEND, OVERWRITE), COMMIT, OTHER_COMMIT),
    "an append and a partition overwrite": plain((APPEND, PARTITION), COMMIT, OTHER_COMMIT),
    "two overwrites": plain((OVERWRITE, OVERWRITE), COMMIT, OTHER_COMMIT),
    "an overwrite and a partition overwrite": plain((OVERWRITE, PARTITION), COMMIT, OTHER_COMMIT),
    "two jobs that want no data": plain((ERROR, ERROR), COMMIT, OTHER_COMMIT),
    "an overwrite, its undo and an append": plain((OVERWRITE, APPEND), COMMIT, OTHER_COMMIT, UNDO),
    "a job that wants no data, and an append": plain((ERROR, APPEND), COMMIT, OTHER_COMMIT),
    "partly overlapping overwrites": plain((OVERWRITE, RIGHT), COMMIT, OTHER_COMMIT),
    "a namesake of an old file, and an undo": plain((SAME_NAME,), COMMIT, COMMIT, UNDO),
    "two overwrites with namesakes": plain((SAME_NAME, SAME_NAME), COMMIT, OTHER_COMMIT),
    "lost answers, two committers and an abort": plain(
        (APPEND,), COMMIT, COMMIT, ABORT, options="LOST_ANSWERS"
    ),
    "lost answers, two overwrites": plain(
        (OVERWRITE, OVERWRITE), COMMIT, OTHER_COMMIT, options="LOST_ANSWERS"
    ),
    "two attempts": plain(attempts(OVERWRITE, is_later=False), COMMIT, OTHER_COMMIT),
    "a newer attempt set up": plain(attempts(OVERWRITE, is_later=True), COMMIT, ("setup", 1)),
    "an id set up again": plain(again(OVERWRITE), COMMIT, ABORT, ("setup", 1)),
    "a flat store, two committers and a late task": plain(
        (APPEND,), COMMIT, COMMIT, TASK, options="FLAT"
    ),
    "an overwrite, an append and its abort": plain(
        (OVERWRITE, APPEND), COMMIT, OTHER_COMMIT, ("abort", 1)
    ),
    "two committers of an append, and an overwrite": plain(
        (APPEND, OVERWRITE), COMMIT, COMMIT, OTHER_COMMIT
    ),
    "two committers with namesakes, and an append": plain(
        (SAME_NAME, APPEND), COMMIT, COMMIT, OTHER_COMMIT
    ),
    "lost answers, an overwrite, its undo and an append": plain(
        (OVERWRITE, APPEND), COMMIT, OTHER_COMMIT, UNDO, options="LOST_ANSWERS"
    ),
    "own states read late, two committers and an abort": plain(
        (OVERWRITE,), COMMIT, COMMIT, ABORT, options="STALE_OWN"
    ),
    "own states read late, two committers and an undo": plain(
        (OVERWRITE,), COMMIT, COMMIT, UNDO, options="STALE_OWN"
    ),
    "own states read late, two committers and a late task": plain(
        (APPEND,), COMMIT, COMMIT, TASK, options="STALE_OWN"
    ),
    "own states read late, an id set up again": plain(
        again(APPEND), COMMIT, ABORT, ("setup", 1), options="STALE_OWN"
    ),
    "answers lost, a newer attempt set up": plain(
        attempts(OVERWRITE, is_later=True), COMMIT, ("setup", 1), options="LOST_ANSWERS"
    ),
    "a newer attempt set up, and its abort": plain(
        attempts(OVERWRITE, is_later=True), COMMIT, ("abort", 1), ("setup", 1)
    ),
    "a newer attempt set up, and an undo of the older": plain(
        attempts(OVERWRITE, is_later=True), COMMIT, UNDO, ("setup", 1)
    ),
    "others seen late, two appends": plain(
        (APPEND, APPEND_RIGHT), COMMIT, COMMIT, OTHER_COMMIT, options="STALE_OTHERS STALE_DATA"
    ),
    "data seen late, an overwrite and two committers": plain(
        (OVERWRITE,), COMMIT, COMMIT, UNDO, options="STALE_DATA"
    ),
    "two attempts, two committers of the older": plain(
        attempts(OVERWRITE, is_later=False), COMMIT, COMMIT, OTHER_COMMIT
    ),
    "a newer attempt set up, two committers of the older": plain(
        attempts(APPEND, is_later=True), COMMIT, COMMIT, ("setup", 1)
    ),
    "lost answers, an id set up again": plain(
        again(APPEND), COMMIT, ABORT, ("setup", 1), options="LOST_ANSWERS"
    ),
    "an id set up again, two committers": plain(again(APPEND), COMMIT, COMMIT, ("setup", 1)),
    "an id set up again, an abort": plain(again(APPEND), COMMIT, ABORT, ("setup", 1)),
    "an id set up again, a late task": plain(again(APPEND), COMMIT, TASK, ("setup", 1)),
    "a flat store, an id set up again": plain(
        again(APPEND), COMMIT, COMMIT, ("setup", 1), options="FLAT"
    ),
    "an id set up again, and a sweep": plain(again(APPEND), ABORT, ABORT, ("setup", 1), ("sweep", 0)),
    "old files aside, two committers and two undos": plain(
        (OVERWRITE,), COMMIT, COMMIT, UNDO, UNDO, options="ASIDE"
    ),
    "old files aside, an overwrite, its undo and an append": plain(
        (OVERWRITE, APPEND), COMMIT, OTHER_COMMIT, UNDO, options="ASIDE"
    ),
    "old files aside, a namesake and an undo": plain(
        (SAME_NAME,), COMMIT, COMMIT, UNDO, options="ASIDE"
    ),
    "old files aside, two committers, and an append of a namesake": plain(
        (OVERWRITE, LIKE_OLD), COMMIT, COMMIT, OTHER_COMMIT, options="ASIDE"
    ),
    "old files aside, two overwrites and an undo": plain(
        (OVERWRITE, OVERWRITE), COMMIT, OTHER_COMMIT, UNDO, options="ASIDE"
    ),
    "old files aside, answers lost, a committer and an undo": plain(
        (OVERWRITE,), COMMIT, COMMIT, UNDO, options="ASIDE LOST_ANSWERS"
    ),
    "old files aside, own states read late, a committer and an undo": plain(
        (OVERWRITE,), COMMIT, COMMIT, UNDO, options="ASIDE STALE_OWN"
    ),
    "an append, and an overwrite that is set up in a partition": plain(
        (APPEND, BELOW), COMMIT, ("setup", 1)
    ),
    "an overwrite, and an append that is set up in a partition": plain(
        (OVERWRITE, APPEND_BELOW), COMMIT, ("setup", 1)
    ),
    "an overwrite, and another that is set up in a partition": plain(
        (OVERWRITE, BELOW), COMMIT, ("setup", 1)
    ),
    "listings in parts, an overwrite, and an append that is set up in a partition": plain(
        (OVERWRITE, APPEND_BELOW), COMMIT, ("setup", 1), options="PARTS"
    ),
    "listings in parts, an overwrite, and another that is set up in a partition": plain(
        (OVERWRITE, BELOW), COMMIT, ("setup", 1), options="PARTS"
    ),
}
"""Those of an ordinary run of the tests."""

LARGE = {
    "two committers of an append, and an overwrite that is set up in a partition": plain(
        (APPEND, BELOW), COMMIT, COMMIT, ("setup", 1), OTHER_COMMIT
    ),
    "two committers of an overwrite, and an append that is set up in a partition": plain(
        (OVERWRITE, APPEND_BELOW), COMMIT, COMMIT, ("setup", 1), OTHER_COMMIT
    ),
    "an overwrite, an undo, and another that is set up in a partition": plain(
        (OVERWRITE, BELOW), COMMIT, UNDO, ("setup", 1)
    ),
    "three jobs": plain((APPEND, PARTITION, OVERWRITE), COMMIT, OTHER_COMMIT, THIRD_COMMIT),
    "three jobs, two of which replace all": plain(
        (OVERWRITE, APPEND, OVERWRITE), COMMIT, OTHER_COMMIT, THIRD_COMMIT
    ),
    "three jobs that overlap in part": plain(
        (OVERWRITE, RIGHT, APPEND_OUTER), COMMIT, OTHER_COMMIT, THIRD_COMMIT
    ),
    "a job that wants no data, an append and an overwrite": plain(
        (ERROR, APPEND, OVERWRITE), COMMIT, OTHER_COMMIT, THIRD_COMMIT
    ),
    "two committers of an overwrite, and one that writes a namesake": plain(
        (OVERWRITE, SAME_NAME), COMMIT, COMMIT, OTHER_COMMIT
    ),
    "an id set up again, two committers and an abort": plain(
        again(APPEND), COMMIT, COMMIT, ABORT, ("setup", 1)
    ),
    "an id set up again, an undo": plain(again(OVERWRITE), COMMIT, UNDO, ABORT, ("setup", 1)),
    "two committers of each of two overwrites": plain(
        (OVERWRITE, RIGHT), COMMIT, COMMIT, OTHER_COMMIT, OTHER_COMMIT
    ),
    "two committers and an undo of a namesake, and an overwrite": plain(
        (SAME_NAME, OVERWRITE), COMMIT, COMMIT, UNDO, OTHER_COMMIT
    ),
    "three jobs that overlap in part, two committers of one": plain(
        (RIGHT, OVERWRITE, APPEND_OUTER), COMMIT, COMMIT, OTHER_COMMIT, THIRD_COMMIT
    ),
    "lost answers, three jobs, two of which replace all": plain(
        (OVERWRITE, APPEND, OVERWRITE), COMMIT, OTHER_COMMIT, THIRD_COMMIT, options="LOST_ANSWERS"
    ),
    "own states read late, answers lost, two committers, an abort and an undo": plain(
        (SAME_NAME,), COMMIT, COMMIT, ABORT, UNDO, options="STALE_OWN LOST_ANSWERS"
    ),
    "own states read late, two jobs": plain(
        (OVERWRITE, APPEND), COMMIT, COMMIT, OTHER_COMMIT, options="STALE_OWN"
    ),
    "a flat store, a late task, an undo and an overwrite": plain(
        (APPEND, OVERWRITE), COMMIT, TASK, UNDO, OTHER_COMMIT, options="FLAT"
    ),
    "two attempts and an overwrite": plain(
        (*attempts(APPEND, is_later=False), OVERWRITE), COMMIT, COMMIT, OTHER_COMMIT, THIRD_COMMIT
    ),
    "an id set up again, an overwrite beside it": plain(
        (*again(APPEND), OVERWRITE), ABORT, ABORT, ("setup", 1), THIRD_COMMIT
    ),
    "three jobs, a vacuum and a late task": plain(
        (APPEND, PARTITION, OVERWRITE), COMMIT, OTHER_COMMIT, THIRD_COMMIT, VACUUM, TASK
    ),
    "three jobs, two committers and an abort of one": plain(
        (APPEND, PARTITION, OVERWRITE), COMMIT, COMMIT, OTHER_COMMIT, THIRD_COMMIT, ABORT
    ),
    "an append and an overwrite, two committers of each, and a vacuum": plain(
        (APPEND, OVERWRITE), COMMIT, COMMIT, OTHER_COMMIT, OTHER_COMMIT, VACUUM
    ),
    "old files aside, two committers of an overwrite, its undo and an append": plain(
        (OVERWRITE, APPEND), COMMIT, COMMIT, UNDO, OTHER_COMMIT, options="ASIDE"
    ),
    "old files aside, two overwrites, an undo, and two appends": plain(
        (OVERWRITE, APPEND, OVERWRITE), COMMIT, UNDO, OTHER_COMMIT, THIRD_COMMIT, options="ASIDE"
    ),
    "old files aside, an id set up again, and an undo": plain(
        again(OVERWRITE), COMMIT, UNDO, ABORT, ("setup", 1), options="ASIDE"
    ),
    "old files aside, a later overwrite of a namesake": plain(
        (OVERWRITE, LIKE_OLD, OVERWRITE), COMMIT, COMMIT, OTHER_COMMIT, THIRD_COMMIT, options="ASIDE"
    ),
}
"""Those of a run of all tests."""

CROWD = (
    *(COMMIT, COMMIT, OTHER_COMMIT, OTHER_COMMIT, THIRD_COMMIT, THIRD_COMMIT),
    *(ABORT, VACUUM, TASK),
)
CROWDS = {
    "three jobs, two committers of each": plain((APPEND, PARTITION, OVERWRITE), *CROWD),
    "lost answers, own states read late, three jobs with namesakes": plain(
        (SAME_NAME, PARTITION, OVERWRITE), *CROWD, options="LOST_ANSWERS STALE_OWN"
    ),
}
"""Those with too many worlds to try all: two committers of each of three jobs, and of one an abort, a
vacuum and a late task.
"""

NOT_PROMISED = {
    "two overwrites, others seen late": plain(
        (OVERWRITE, OVERWRITE), COMMIT, OTHER_COMMIT, options="STALE_OTHERS"
    ),
    "an append and an overwrite, data seen late": plain(
        (APPEND, OVERWRITE), COMMIT, OTHER_COMMIT, options="STALE_DATA"
    ),
    "two jobs that want no data, data seen late": plain(
        (ERROR, ERROR), COMMIT, OTHER_COMMIT, options="STALE_DATA"
    ),
    "an append and an overwrite, others seen late": plain(
        (APPEND, OVERWRITE), COMMIT, OTHER_COMMIT, options="STALE_OTHERS"
    ),
    "a newer attempt set up, and _SUCCESS of another job": plain(
        (*attempts(APPEND, is_later=True), OVERWRITE), COMMIT, ("setup", 1), THIRD_COMMIT
    ),
}
"""What docs/protocol.md does not promise, since no rule protects from it: overwrites beside other jobs
where a listing may show an old state of a directory, and an id of which not even ``_SUCCESS`` is left.
"""

NEEDED = {
    Rule.CONSUME: "an undo and a late task",
    Rule.READ_BACK: "lost answers, two committers and an abort",
    Rule.LOOK: "two overwrites",
    Rule.LOOK_IN_GONE: "an id set up again, an overwrite beside it",
    Rule.DECLARE_FIRST: "an append and an overwrite",
    Rule.LIST_AFTER: "two overwrites",
    Rule.PAGE_AFTER: "an append, and an overwrite that is set up in a partition",
    Rule.ONE_PAGE: "an overwrite, and an append that is set up in a partition",
    Rule.PAGE_AGAIN: "an overwrite, and an append that is set up in a partition",
    Rule.FREEZE: "two committers and a late task",
    Rule.LIST_AGAIN: "two committers and a late task",
    Rule.LOOK_AGAIN: "a flat store, two committers and a late task",
    Rule.SEAL: "two committers and an undo",
    Rule.SEAL_NAMESAKES: "a namesake of an old file, and an undo",
    Rule.DELETE_VERSION: "two committers of an overwrite, and one that writes a namesake",
    Rule.SOURCE_FIRST: "an undo and a late task",
    Rule.NO_UNDO_OF_SEALED: "two committers and an undo",
    Rule.ASIDE_ONCE: "old files aside, two committers and two undos",
    Rule.NOT_IN_PLACE: "old files aside, two committers and two undos",
    Rule.AWAY_FIRST: "old files aside, two committers and two undos",
    Rule.BACK_BEFORE_ABORTED: "old files aside, two committers and two undos",
    Rule.KEPT_UNTIL_COMMITTED: "old files aside, two committers and two undos",
    Rule.AWAY_BEFORE_COMMITTED: "old files aside, two committers, and an append of a namesake",
    Rule.COMPARE_ASIDE: "old files aside, two committers, and an append of a namesake",
    Rule.WAIT_FOR_SEALED: "old files aside, two overwrites and an undo",
    Rule.LOOK_INSIDE: "an id set up again, and a sweep",
    Rule.OWN_NAMES: "a flat store, an id set up again",
    Rule.SAME_STAMP: "an id set up again",
    Rule.OWN_SUCCESS: "an id set up again",
    Rule.OWN_STATE_IN_GONE: "an id set up again, two committers and an abort",
    Rule.STAMP: "an id set up again, a late task",
    Rule.ABORT_OLDER: "a newer attempt set up",
    Rule.ABORT_OTHERS: "a newer attempt set up",
    Rule.LOOK_AT_SUCCESS: "a newer attempt set up",
}
"""Each rule, and a situation in which leaving it out ends wrongly."""
EVERY = SITUATIONS | LARGE | NOT_PROMISED
