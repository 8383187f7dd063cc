"""The stores: which requests a commit makes there, how many they take per second, and what they cost.

The requests are those of a commit without faults that appends to a destination (``docs/protocol.md``);
`tests/estimate/test_requests.py` compares them with real commits. Limits and prices are what the
providers publish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

RENAME, COMPLETE, READ, LIST, WRITE, MKDIRS, DELETE, STATE, LOOK = (
    "rename", "complete", "read", "list", "write", "mkdirs", "delete", "state", "look",
)  # fmt: skip
KINDS = (RENAME, COMPLETE, READ, LIST, WRITE, MKDIRS, DELETE, STATE, LOOK)
"""The kinds of requests: `state` changes the state of the job, `look` looks at one name."""
READS = frozenset((READ, LIST, LOOK))


@dataclass(frozen=True, slots=True)
class Limit:
    """Requests per second that a store takes; it `doubles` every so many seconds under load."""

    reads: float
    writes: float
    name: str
    source: str
    are_one: bool = False
    """Reads and writes count together."""
    doubles: float | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per 1,000 requests by kind; kinds that are not there are free."""

    per_thousand: Mapping[str, float]
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of store.

    latency: seconds per request, if nobody says how many they are here: an assumption.
    client: seconds of processor time of a request, by the store's client.
    page: the names in one answer to a listing; None if it has them all.
    once: requests of a commit beside those of its files, tasks and directories.
    rounds: how many requests of each stage follow one another, without those of its items.
    """

    name: str
    latency: float
    client: float
    once: Mapping[str, float]
    rounds: Mapping[str, float]
    move: str = RENAME
    page: int | None = None
    is_local: bool = False
    listing_is_cheap: bool = False
    has_directories: bool = True
    moves_directories: bool = True
    copies_manifests: bool = False
    listed_a_task: int = 1
    """Names of a task in a listing of the manifests."""
    listings: int = 2
    """How often the manifests are listed."""
    names_a_task: int = 1
    """Objects that a task leaves, for the clean-up."""
    deletes_at_once: int = 0
    """How many names one deletion takes in the clean-up; 0 if one takes the whole job."""
    deletions_at_once: int = 1
    weights: Mapping[str, int] = field(default_factory=dict)
    """How many requests, one after another, a kind takes; 1 if it is not there."""
    limit: Limit | None = None
    prices: Prices | None = None


def limited_to(store: Store, per_second: float) -> Store:
    """The store, if it takes so many requests per second, reads and writes together."""
    limit = Limit(
        per_second,
        per_second,
        f"the {per_second:,.0f} requests per second of the store",
        "given",
        are_one=True,
    )
    return replace(store, limit=limit)
