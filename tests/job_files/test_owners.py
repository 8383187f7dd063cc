"""Whether who runs a commit is alive: this process, another one, one that has ended, another machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ray_committer.job_files.owners import (
    BEAT_SECONDS,
    DEAD_SECONDS,
    Life,
    at_work,
    has_ended,
    is_alive,
    life_of,
    nobody,
    owner_of,
)
from ray_committer.protocol.record import Owner
from tests.stages.support import NOW

BOUND = round(DEAD_SECONDS * 1000)


def is_alive_after(owner: Owner, milliseconds: int = 0) -> bool:
    """Whether an owner is alive so long after its last sign."""
    return is_alive(owner, NOW, NOW + milliseconds)


def changed(**fields: object) -> Owner:
    return msgspec.structs.replace(owner_of("run"), **fields)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine, which waits for its input to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        if process.poll() is None:
            process.kill()


def owner_in(process: int) -> Owner:
    started = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    return changed(process=process, started=started)


def test_a_run_of_this_process_is_alive_while_it_is_at_work():
    assert not is_alive_after(owner_of("run"))
    with at_work("run"):
        assert is_alive_after(owner_of("run"))
        assert not is_alive_after(owner_of("another"))
        with at_work("another"):
            assert is_alive_after(owner_of("another"))
        assert is_alive_after(owner_of("run"))
    assert not is_alive_after(owner_of("run"))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_run_that_an_error_has_ended_is_dead(error: type[BaseException]):
    with pytest.raises(error), at_work("run"):
        raise error
    assert not is_alive_after(owner_of("run"))


def test_another_process_of_this_machine_is_alive_until_it_ends(child: subprocess.Popen[bytes]):
    owner = owner_in(child.pid)
    assert is_alive_after(owner)
    child.kill()
    child.wait()
    assert not is_alive_after(owner)


def test_a_process_that_has_the_number_of_a_dead_one_is_not_taken_for_it(child: subprocess.Popen[bytes]):
    owner = owner_in(child.pid)
    assert not is_alive_after(msgspec.structs.replace(owner, started=owner.started - 1))
    with at_work("run"):
        assert not is_alive_after(changed(started=owner_of("run").started - 1))


def test_a_process_of_this_number_never_was(child: subprocess.Popen[bytes]):
    child.kill()
    child.wait()
    assert not is_alive_after(changed(process=child.pid, started=0))


@pytest.mark.parametrize("fields", [{"host": "another"}, {"boot": "another"}])
def test_what_cannot_be_asked_for_is_believed_for_a_while_after_its_last_sign(fields: dict[str, str]):
    owner = changed(**fields, process=2**22 + 1)
    assert is_alive_after(owner)
    assert is_alive_after(owner, BOUND)
    assert not is_alive_after(owner, BOUND + 1)


@pytest.mark.parametrize(
    ("ahead", "life"), [(BOUND, Life.ALIVE), (BOUND + 1, Life.DOUBTFUL), (36_000_000, Life.DOUBTFUL)]
)
def test_a_sign_from_the_future_is_no_sign_of_life(ahead: int, life: Life):
    assert life_of(changed(host="another"), NOW + ahead, NOW) is life
    assert is_alive_after(changed(host="another"), -ahead) is (life is Life.ALIVE)
    assert life_of(owner_of("run"), NOW + ahead, NOW) is Life.DEAD  # this machine knows that one


def test_only_what_this_machine_knows_is_certain(child: subprocess.Popen[bytes]):
    owner = owner_in(child.pid)
    with at_work("run"):
        assert not has_ended(owner_of("run"))
    assert has_ended(owner_of("run"))
    assert not has_ended(owner)
    assert not has_ended(changed(host="another"))
    assert has_ended(nobody("run"))
    child.kill()
    child.wait()
    assert has_ended(owner)


def test_a_process_in_another_container_of_this_machine_is_not_looked_for_by_its_number():
    boot, namespace = owner_of("run").boot.split(" ")
    assert len(boot) == 36
    assert namespace == os.readlink("/proc/self/ns/pid")
    assert not has_ended(changed(boot=f"{boot} pid:[1]", process=2**22 + 1))


def test_who_gives_no_sign_for_long_is_not_waited_for_wherever_it_is(child: subprocess.Popen[bytes]):
    with at_work("run"):
        for owner in (owner_of("run"), owner_in(child.pid), changed(host="another")):
            assert is_alive_after(owner, BOUND)
            assert not is_alive_after(owner, BOUND + 1)


def test_several_signs_fit_into_the_time_for_which_one_is_believed():
    assert DEAD_SECONDS >= 3 * BEAT_SECONDS


def test_a_process_is_known_by_its_machine_its_number_and_its_start():
    here = owner_of("run")
    assert here == owner_of("run")
    assert here.process == os.getpid()
    assert here.started > 0
    assert here.host
    assert owner_of("another") == msgspec.structs.replace(here, run="another")
