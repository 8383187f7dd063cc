"""The directory coordinator: each leaf once, whoever dies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ray_committer.directories import DirectoryCoordinator
from ray_committer.protocol.fingerprints import WIDTH, fingerprint
from ray_committer.protocol.paths import parent

names = st.sampled_from("abc")
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/t/" + "/".join(parts))


def drain(coordinator: DirectoryCoordinator, limit: int = 2) -> list[str]:
    claimed = []
    while batch := coordinator.claim(limit):
        claimed += batch
        coordinator.finish(batch)
    return claimed


@given(st.lists(st.lists(paths)))
def test_every_leaf_is_handed_out_once_and_covers_all(batches: list[list[str]]):
    coordinator = DirectoryCoordinator()
    for batch in batches:
        coordinator.collect(batch)
    wanted = {path for batch in batches for path in batch}
    leaves = coordinator.plan()
    claimed = drain(coordinator)
    assert len(claimed) == len(set(claimed)) == leaves
    made = set(claimed)
    for leaf in claimed:
        above = parent(leaf)
        assert above not in claimed
        while above != "/":
            made.add(above)
            above = parent(above)
    assert wanted <= made
    assert coordinator.release() == 0


def test_what_a_lost_holder_had_claimed_is_handed_out_again():
    coordinator = DirectoryCoordinator()
    coordinator.collect(["/t/a", "/t/b", "/t/c"])
    assert coordinator.plan() == 3
    lost = coordinator.claim(2)
    assert len(coordinator.claim(5)) == 1
    assert coordinator.claim(5) == []
    coordinator.finish(["/t/c"])
    assert coordinator.release() == 2
    assert sorted(drain(coordinator)) == sorted(lost)
    assert coordinator.release() == 0


def test_directories_collected_later_are_planned_too():
    coordinator = DirectoryCoordinator()
    coordinator.collect(["/t/a"])
    coordinator.plan()
    assert drain(coordinator) == ["/t/a"]
    coordinator.collect(["/t/a", "/t/a/b"])
    assert coordinator.plan() == 1
    assert drain(coordinator) == ["/t/a/b"]


def test_fingerprints_are_of_all_directories_ancestors_included():
    coordinator = DirectoryCoordinator()
    coordinator.collect(["/t/a/b", "/t/a/c"])
    found = coordinator.fingerprints()
    assert len(found) == 4 * WIDTH
    assert coordinator.find(frozenset([fingerprint("/t/a")])) == ["/t/a"]
