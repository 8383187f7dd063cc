"""Which directories of the output go whole: decided from what packs name and listings show."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Collection

import pytest

from ray_committer.protocol.staging import key_of
from ray_committer.protocol.uri import Location
from ray_committer.protocol.whole import (
    BY_ETAG,
    BY_SIZE,
    BY_TIME,
    SEVERAL,
    ByFile,
    Sources,
    Tally,
    Verdict,
    WholePlan,
    goal_of,
    plan_whole,
)

DEST = "/table"
P, Q = f"{DEST}/p=1", f"{DEST}/p=2"


def source_of(directory: str, scheme: str = "") -> str:
    return f"in/{key_of(Location(scheme, '', directory), Location(scheme, '', DEST))}"


def going_to(directory: str, files: int = 3, proof: int = BY_TIME) -> Tally:
    return Tally(files, 10 * files, 1000 + files, proof, goals=goal_of(directory, DEST))


def planned(
    sources: dict[str, Tally],
    verdicts: dict[str, Verdict] | None = None,
    directories: Collection[str] = (P,),
    **named: object,
) -> WholePlan:
    known = Sources()
    for source, tally in sources.items():
        known.add(source, tally)
    plan = plan_whole(known, verdicts or {}, DEST, directories, **named)
    inner = {path for path in directories if any(other.startswith(f"{path}/") for other in directories)}
    # R4: each leaf goes whole or is counted with its reason.
    assert len(plan.moves) + plan.by_file.total() == len({*directories} - inner)
    assert len({move.source for move in plan.moves}) == len({move.dest for move in plan.moves})
    assert not inner & {move.dest for move in plan.moves}
    return plan


OURS = {source_of(P): going_to(P)}
ANOTHER = f"in/{32 * 'f'}"


def test_a_directory_whose_files_are_all_in_one_shared_source_goes_whole():
    (move,) = planned(OURS).moves
    assert (move.source, move.dest) == (source_of(P), P)
    assert (move.files, move.size, move.total, move.proof) == (3, 30, 1003, BY_TIME)
    assert move.leftovers == ()


def test_each_goes_whole_by_itself():
    plan = planned(OURS | {source_of(Q): going_to(Q)}, {}, (P, Q), there={Q})
    assert [move.dest for move in plan.moves] == [P]
    assert plan.by_file == {ByFile.THERE: 1}


@pytest.mark.parametrize("directory", ["/elsewhere/p", f"{DEST}/a b/p=%2F", f"{DEST}/p=\udcff"])
def test_where_the_directory_is_and_how_it_is_called_makes_no_difference(directory: str):
    # Spark writes the key of a place outside the destination from its whole URL.
    for source in (ANOTHER, source_of(P, "file")):
        (move,) = planned({source: going_to(directory)}, {}, [directory]).moves
        assert (move.source, move.dest) == (source, directory)


BY_FILE = {
    "no file goes there": (ByFile.NO_FILES, {"sources": {}}),
    "its files go elsewhere": (ByFile.NO_FILES, {"sources": {source_of(P): going_to(Q)}}),
    "it was there": (ByFile.THERE, {"there": {P}}),
    "some files were moved": (ByFile.THERE, {"verdicts": {source_of(P): Verdict(is_partial=True)}}),
    "attempts' own directory": (ByFile.OWN_NAMES, {"sources": {"attempt_1/p=1": going_to(P)}}),
    "the destination's files": (ByFile.OWN_NAMES, {"sources": {"root/03": going_to(P)}}),
    "other names": (
        ByFile.OWN_NAMES,
        {"sources": {source_of(P): going_to(P)._replace(goals=goal_of(P, DEST) + SEVERAL)}},
    ),
    "two spellings": (ByFile.TWO_SOURCES, {"sources": OURS | {ANOTHER: going_to(P)}}),
    "not only files": (ByFile.ODD, {"verdicts": {source_of(P): Verdict(is_odd=True)}}),
    "as many leftovers": (ByFile.ODD, {"verdicts": {source_of(P): Verdict(("a", "b", "c"))}}),
    "sizes alone": (ByFile.NO_PROOF, {"sources": {source_of(P): going_to(P, proof=BY_SIZE)}}),
    "some sizes alone": (
        ByFile.NO_PROOF,
        {"sources": {source_of(P): going_to(P, proof=BY_SIZE | BY_TIME)}},
    ),
    "times and etags": (
        ByFile.NO_PROOF,
        {"sources": {source_of(P): going_to(P, proof=BY_ETAG | BY_TIME)}},
    ),
}


@pytest.mark.parametrize("case", BY_FILE)
def test_its_files_are_moved_one_by_one_and_the_reason_is_counted(case: str):
    why, named = BY_FILE[case]
    plan = planned(**{"sources": OURS, **named})
    assert len(plan.moves) == 0
    assert plan.by_file == {why: 1}


def test_every_reason_that_a_look_can_have_is_tried():
    assert {why for why, _ in BY_FILE.values()} == {*ByFile} - {
        ByFile.NOT_HERE,
        ByFile.RIGHTS,
        ByFile.REFUSED,
    }


def test_of_several_reasons_the_first_counts():
    odd = {source_of(P): Verdict(is_odd=True)}
    unproven = {source_of(P): going_to(P, proof=BY_SIZE)}
    reasons = [
        planned({}, {}, there={P}),
        planned(unproven | {ANOTHER: going_to(P)}, odd, there={P}),
        planned(unproven | {ANOTHER: going_to(P)}, odd),
        planned(unproven, odd),
        planned(unproven),
    ]
    found = [next(iter(plan.by_file)) for plan in reasons]
    assert found == [why for why in ByFile if why in found]


def test_a_source_counts_by_where_its_files_go_whatever_its_name():
    (move,) = planned({ANOTHER: going_to(P)}).moves
    assert (move.source, move.dest) == (ANOTHER, P)
    swapped = planned({source_of(P): going_to(Q), source_of(Q): going_to(P)}, {}, (P, Q))
    assert [(move.source, move.dest) for move in swapped.moves] == [(source_of(Q), P), (source_of(P), Q)]
    for sources in (
        {**OURS, source_of(Q): going_to(P)},
        {source_of(Q): going_to(P), ANOTHER: going_to(P)},
    ):
        plan = planned(sources, {}, (P, Q))
        assert (len(plan.moves), plan.by_file) == (0, {ByFile.TWO_SOURCES: 1, ByFile.NO_FILES: 1})


def test_fewer_leftovers_than_files_are_to_be_deleted_first():
    (move,) = planned(OURS, {source_of(P): Verdict(("a", "b"))}).moves
    assert move.leftovers == ("a", "b")


def test_a_source_that_is_gone_may_be_in_place():
    (move,) = planned(OURS, {source_of(P): Verdict(is_missing=True)}).moves
    assert move.dest == P


@pytest.mark.parametrize("apart", [going_to(P), going_to(P)._replace(goals=goal_of(P, DEST) + SEVERAL)])
def test_a_directory_with_files_of_attempts_own_directories_is_never_complete_at_once(apart: Tally):
    plan = planned(OURS | {"attempt_1/x": apart})
    assert (len(plan.moves), plan.by_file) == (0, {ByFile.OWN_NAMES: 1})
    plan = planned(OURS | {"attempt_1/x": going_to(Q)}, {}, (P, Q))
    assert ([move.dest for move in plan.moves], plan.by_file) == ([P], {ByFile.OWN_NAMES: 1})


def test_a_directory_above_another_one_is_no_leaf():
    inner, leaf = f"{DEST}/a", f"{DEST}/a/b/c"
    sources = {source_of(path): going_to(path) for path in (inner, leaf)}
    plan = planned(sources, {}, (inner, leaf))
    assert [move.dest for move in plan.moves] == [leaf]
    assert plan.by_file == Counter()


def test_a_directory_that_gets_a_file_from_a_source_with_several_goals_is_not_said_to_be_empty():
    goals = goal_of(P, DEST) + goal_of(Q, DEST)
    assert planned({"attempt_1": Tally(2, goals=goals)}).by_file == {ByFile.OWN_NAMES: 1}


@pytest.mark.parametrize("source", ["attempt_1", ANOTHER])
@pytest.mark.parametrize("packs", [[(P, Q)], [(P,), (Q,)], [(P, P), (Q,), (P,)]])
def test_a_source_with_files_for_several_directories_makes_only_these_go_by_file(
    source: str, packs: list[tuple[str, ...]]
):
    directories, known = (P, Q, f"{DEST}/r", f"{DEST}/s"), Sources()
    for path in directories:
        known.add(source_of(path), going_to(path))
    for goals in packs:
        known.add(source, Tally(1, goals=b"".join(goal_of(path, DEST) for path in goals)))
    plan = plan_whole(known, {}, DEST, directories)
    assert [move.dest for move in plan.moves] == [f"{DEST}/r", f"{DEST}/s"]
    assert plan.by_file == {ByFile.OWN_NAMES: 2}


def test_tallies_add_up():
    one, other = Tally(1, 10, 100, BY_TIME, 0, b"x"), Tally(2, 20, 200, BY_SIZE, 1, b"x")
    assert one.plus(other) == Tally(3, 30, 300, BY_TIME | BY_SIZE, 1, b"x")
    assert Tally().plus(one) == one
    assert one.shows(Tally(1, 10, 100, others=5))
    assert not one.shows(one.plus(other))
    assert not one.shows(one._replace(total=101))


def test_sources_are_held_as_they_were_added():
    sources, tallies = Sources(), dict[str, Tally]()
    for number in range(300):
        source = [source_of(f"{DEST}/p={number % 7}"), f"attempt_{number % 3}", "root/03"][number % 3]
        tally = Tally(number, 2**40, 2**127 + number, BY_TIME, 0, goal_of(str(number % 2), DEST))
        sources.add(source, tally)
        tallies[source] = tallies.get(source, Tally()).plus(tally)
    several = {source for source, tally in tallies.items() if len(tally.goals) > len(SEVERAL)}
    tallies |= {source: tallies[source]._replace(goals=SEVERAL) for source in several}
    assert sources.spread == {goal_of("0", DEST), goal_of("1", DEST), SEVERAL}
    assert dict(sources.items()) == tallies
    assert [*sources] == [*tallies]
    assert len(sources) == len(tallies)
    assert all(source in sources and sources.get(source) == tallies[source] for source in tallies)
    assert ANOTHER not in sources
    assert sources.get(ANOTHER) == Tally()


def test_moves_are_a_sequence():
    directories = [f"{DEST}/p={number}" for number in range(5)]
    moves = planned({source_of(path): going_to(path) for path in directories}, {}, directories).moves
    assert [move.dest for move in moves] == directories
    assert moves[1:3] == tuple(moves)[1:3]
    assert [move.source for move in moves] == [*map(source_of, directories)]
    assert moves[5:] == ()


def test_a_plan_holds_few_bytes_a_directory_beside_its_path():
    directories = [f"{DEST}/p={number}" for number in range(2_000)]
    sources = Sources()
    for directory in directories:
        sources.add(source_of(directory), going_to(directory))
    tracemalloc.start()
    try:
        plan = plan_whole(sources, {}, DEST, directories)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(plan.moves) == len(directories)
    assert most < 50 * len(directories)
