"""The directory coordinator: each leaf once, whoever dies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.protocol.fingerprints import fingerprint, fingerprints
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
    for number, batch in enumerate(batches):
        coordinator.collect(number, batch, b"")
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
    coordinator.collect(0, ["/t/a", "/t/b", "/t/c"], b"")
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
    coordinator.collect(0, ["/t/a"], b"")
    coordinator.plan()
    assert drain(coordinator) == ["/t/a"]
    coordinator.collect(1, ["/t/a", "/t/a/b"], b"")
    assert coordinator.plan() == 1
    assert drain(coordinator) == ["/t/a/b"]


def test_a_directory_and_a_file_of_one_name_are_a_repetition_ancestors_included():
    coordinator = DirectoryCoordinator()
    coordinator.collect(0, ["/t/a/b", "/t/a/c"], fingerprints(["/t/a/b/f", "/t/a"]))
    assert coordinator.repeated() == {fingerprint("/t/a")}
    assert coordinator.find(frozenset([fingerprint("/t/a")])) == ["/t/a"]


def test_a_batch_that_is_collected_twice_repeats_nothing():
    coordinator = DirectoryCoordinator()
    for _ in range(2):
        coordinator.collect(0, ["/t/a"], fingerprints(["/t/a/f"]))
    assert coordinator.repeated() == frozenset()
    coordinator.collect(1, ["/t/a"], fingerprints(["/t/a/f"]))
    assert coordinator.repeated() == {fingerprint("/t/a/f")}


def test_what_the_job_writes_is_found_among_other_names():
    coordinator = DirectoryCoordinator()
    coordinator.collect(0, [], fingerprints(["/t/a", "/t/b"]))
    coordinator.collect(1, [], fingerprints(["/t/c"]))
    assert coordinator.written(fingerprints(["/t/c", "/t/d"])) == {fingerprint("/t/c")}
    assert coordinator.written(b"") == frozenset()


@given(st.sets(paths), st.integers(1, 5))
def test_every_directory_is_in_one_share(directories: set[str], shares: int):
    coordinator = DirectoryCoordinator()
    coordinator.collect(0, list(directories), b"")
    found = [path for number in range(shares) for path in coordinator.share(number, shares)]
    assert sorted(found) == sorted(directories)
