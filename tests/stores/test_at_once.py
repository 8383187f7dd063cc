"""Requests at the same time: the same results, in the same order."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from ray_committer.stores.at_once import MANY, at_once
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore


@pytest.mark.parametrize(
    ("store", "count", "together"),
    [
        (MemoryStore(), MANY, True),
        (MemoryStore(), MANY - 1, False),
        (LocalStore(StoreSpec("file")), MANY, False),
    ],
    ids=["many", "few", "local"],
)
def test_many_requests_are_made_at_the_same_time(store: StoreOperations, count: int, together: bool):
    gate = threading.Barrier(count)

    def request(number: int) -> tuple[int, bool]:
        if together:
            gate.wait(60)
        return number, threading.current_thread() is threading.main_thread()

    found = at_once(store, request, range(count), least=MANY)
    assert found == [(number, not together) for number in range(count)]


def test_the_first_error_is_raised():
    def request(number: int) -> int:
        return 1 // (number - 3)

    with pytest.raises(ZeroDivisionError):
        at_once(MemoryStore(), request, range(MANY))


PROGRAM = """
import threading
from ray_committer.stores.at_once import at_once
from ray_committer.testing import MemoryStore

def work():
    threading.main_thread().join()  # which ends once the interpreter has begun to end
    print(at_once(MemoryStore(), str, range(20)))

threading.Thread(target=work).start()
"""


def test_while_the_interpreter_ends_they_are_made_one_by_one():
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert (ended.stdout, ended.stderr) == (f"{[str(n) for n in range(20)]}\n", "")
