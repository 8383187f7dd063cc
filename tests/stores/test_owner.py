"""The user of a store is learned once, from a file that this process has written."""

from __future__ import annotations

import threading
from functools import partial

from ray_committer.stores.owner import Owner
from tests.threads import at_once

PARENTS = [f"/table/day={number}" for number in range(30)]


def test_threads_that_ask_at_the_same_time_all_know_the_user():
    everybody_has_looked, looked = threading.Event(), list[str]()

    def look(path: str) -> tuple[str, str] | None:
        if path in PARENTS:
            looked.append(path)
            if len(looked) == len(PARENTS):
                everybody_has_looked.set()
            return "another", "group"
        everybody_has_looked.wait()  # the answer about the file is the last one to arrive
        return ("user", "files") if path == "/written" else None

    owner, found = Owner(look), list[str | None]()
    for path in ("/written", "/gone"):
        owner.wrote(path)
    at_once(
        partial(lambda path: found.append(owner.rights_below(path, "755")), path) for path in PARENTS
    )
    assert found == ["user:group:755"] * len(PARENTS)


def test_a_process_that_has_written_nothing_that_is_left_does_not_know_its_user():
    owner = Owner(lambda path: None if path == "/gone" else ("another", "group"))
    owner.wrote("/gone")
    assert owner.rights_below("/table", "755") is None
    owner.wrote("/written")
    assert owner.rights_below("/table", "755") == "another:group:755"
