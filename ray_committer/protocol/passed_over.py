"""What a task attempt's directory held that is not output, as its manifest says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec

from ray_committer.errors import SHOWN, some_of
from ray_committer.protocol.prepared import prepare

if TYPE_CHECKING:
    from ray_committer.protocol.manifest import TaskManifest

PASSED_OVER = "ray_committer.passed_over"
"""The key in a manifest's `extra_data`, which the Java classes also write."""


class PassedOver(msgspec.Struct, frozen=True, gc=False):
    """The `number` of names that were passed over, and the first of them by path."""

    number: Annotated[int, msgspec.Meta(ge=0)] = 0
    names: tuple[str, ...] = ()

    @staticmethod
    def of(names: Sequence[str]) -> PassedOver:
        """What was passed over, by all its names."""
        return PassedOver(len(names), tuple(sorted(names)[:SHOWN]))

    def plus(self, other: PassedOver) -> PassedOver:
        """What two task attempts have passed over."""
        names = sorted((*self.names, *other.names))[:SHOWN]
        return PassedOver(self.number + other.number, tuple(names))

    def __str__(self) -> str:
        return some_of(self.names, self.number)


prepare(PassedOver)
NOTHING = PassedOver()


def extra_data_of(passed: PassedOver) -> dict[str, str]:
    """What a manifest says of it: nothing if nothing was passed over."""
    return {PASSED_OVER: msgspec.json.encode(passed).decode()} if passed.number else {}


def passed_over_by(manifest: TaskManifest) -> PassedOver:
    """What the task attempt of a manifest has passed over; a text of another form is ignored."""
    text = (manifest.extra_data or {}).get(PASSED_OVER)
    try:
        return msgspec.json.decode(text, type=PassedOver) if isinstance(text, str) else NOTHING
    except msgspec.MsgspecError:
        return NOTHING
