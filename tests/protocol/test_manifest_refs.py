"""The manifests of a job, as a commit holds them: what goes in comes out, in order, and takes little."""

from __future__ import annotations

import tracemalloc

from ray_committer.protocol.iostatistics import IOStatistics, packed
from ray_committer.protocol.manifest import ManifestRef, digest
from ray_committer.protocol.manifest_refs import ManifestRefs
from ray_committer.protocol.passed_over import PassedOver

NUMBER = 1_000


def refs(number: int = NUMBER) -> list[ManifestRef]:
    names: dict[object, object] = {}
    statistics = [packed(IOStatistics({"files": n}), names) for n in range(3)]
    return [
        ManifestRef(
            f"task_1_m_{n:06d}-manifest.json",
            1_000 + n,
            digest(str(n).encode()),
            n,
            f"attempt_1_m_{n:06d}_0" if n % 2 else None,
            None if n % 2 else f"/table/{n}",
            2**64 - 1 - n,
            statistics[n % 3],
            PassedOver(n % 2, ("x",) * (n % 2)),
        )
        for n in range(number)
    ]


def test_what_is_held_is_what_was_given_in_order_and_can_be_asked_for_again():
    found = refs()
    held = ManifestRefs(found)
    assert (len(held), list(held), list(held)) == (NUMBER, found, found)
    assert found[1] in held
    assert ManifestRef("other", 1, "", 0) not in held
    assert (len(ManifestRefs()), list(ManifestRefs())) == (0, [])


def test_parts_are_joined_in_their_order():
    found = refs(10)
    parts = [ManifestRefs(found[:4]), ManifestRefs(), ManifestRefs(found[4:])]
    assert list(ManifestRefs.joined(parts)) == found


def test_names_of_statistics_are_held_once():
    first, *_, last = ManifestRefs(refs())
    assert first.statistics.names is last.statistics.names


def test_a_manifest_takes_few_bytes():
    tracemalloc.start()
    try:
        held = ManifestRefs(iter(refs()))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 100 * len(held)
