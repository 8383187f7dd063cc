"""What a person sees of a commit while it runs: drawn on a terminal, in lines elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.cli.lines import lines
from ray_committer.events import JobLoaded, Notice, StageEnded, StageStarted
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.slow

FILES = 300

# A commit of FILES files whose renames take a while; with "warn", it logs in the middle.
SLOW = """
import logging, sys, time
import ray_committer.jobs.open_job as open_job
from ray_committer.cli.main import main
from ray_committer.testing import WrappedStore

def slow(call):
    if call.operation == "rename" and "/p=" in call.paths[1]:
        time.sleep(0.1)
        if call.paths[1].endswith("/f150") and "warn" in sys.argv:
            logging.getLogger("somebody").warning("a log line that must be seen")

opened = open_job.open_store
open_job.open_store = lambda spec, **_: WrappedStore(opened(spec), before=slow)
main(["commit", sys.argv[1], "--assume-complete"])
"""


def slow_commit(dest: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-c", SLOW, str(dest), *arguments]


@pytest.fixture
def files(write_job) -> dict[str, str]:
    written = {f"p={n % 5}/f{n}": "x" * 1_000 for n in range(FILES)}
    write_job({0: written})
    return written


def visible(dest: Path) -> int:
    return len(list(dest.glob("p=*/f*")))


def wait_for_files(dest: Path) -> None:
    wait_for(lambda: visible(dest) > 0)


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_how_far_it_is_and_nothing_of_it_is_left(files, dest: Path, columns: int):
    terminal = Terminal(slow_commit(dest), columns)
    exit_code, output = terminal.end()
    assert exit_code == 0
    seen = "\n".join(terminal.screens)
    counts = {int(count) for count in re.findall(r"rename_files ━+.* (\d+) of 300 files", seen)}
    assert len(counts) >= 3
    assert re.search(r"  \d s, \d+ kB of 300 kB, \d+ per second, about \d+ s to go", seen)
    assert terminal.screen == "  300 files, 300 kB, of 1 task manifest"
    assert not terminal.cursor_is_hidden
    assert output.startswith("job job_1 is committed")
    assert "\x1b" not in output


def test_the_report_on_the_same_terminal_has_nothing_of_the_display_in_it(files, dest: Path):
    terminal = Terminal(slow_commit(dest), 120, with_output=True)
    assert terminal.end()[0] == 0
    first, second, *_, last = terminal.screen.splitlines()
    assert first == "  300 files, 300 kB, of 1 task manifest"
    assert second.startswith("job job_1 is committed")
    assert last.strip()
    assert "━" not in terminal.screen
    assert "⠋" not in terminal.screen


def test_a_narrow_terminal_shows_two_lines_all_the_same(files, dest: Path):
    terminal = Terminal(slow_commit(dest), 30)
    assert terminal.end()[0] == 0
    assert any("rename_files" in screen for screen in terminal.screens)
    assert max(len(screen.splitlines()) for screen in terminal.screens) <= 4  # with one wrapped note


@pytest.mark.parametrize("no_color", ["1", ""])
def test_no_color_is_respected(files, dest: Path, no_color: str):
    coloured = re.compile(rb"\x1b\[[0-9;]*(?:3[0-7]|38|9[0-7])[0-9;]*m")
    terminal = Terminal(slow_commit(dest), 80, {"NO_COLOR": no_color})
    terminal.end()
    assert bool(coloured.search(terminal.raw)) is (no_color == "")
    assert any("of 300 files" in screen for screen in terminal.screens)


def test_a_dumb_terminal_gets_lines(files, dest: Path):
    terminal = Terminal(slow_commit(dest), 80, {"TERM": "dumb"})
    assert terminal.end()[0] == 0
    assert b"\x1b" not in terminal.raw
    assert terminal.screen == (
        "  load_manifests\n  300 files, 300 kB, of 1 task manifest\n  rename_files"
    )


TROUBLE = """
import time
from ray_committer.cli.progress import progress
from ray_committer.events import JobLoaded, StageStarted, Throttled, WorkerLost, WorkerStarted

with progress() as shown:
    for event in (
        JobLoaded(3, 70_000, 5_000_000_000, resumed=True),
        StageStarted("job_stage_rename_files"),
        WorkerStarted("worker 1", "10.0.0.1", 7),
        WorkerStarted("worker 2", "10.0.0.2", 8),
        WorkerLost("worker 1", "10.0.0.1", 7, "the node died"),
        Throttled(3.0, 1.0, refused=10, before=2_000, lowest=800, number=0, rate=850),
    ):
        shown.event(event)
    time.sleep(1)
"""


def test_lost_workers_and_throttling_are_shown_while_they_last():
    terminal = Terminal([sys.executable, "-c", TROUBLE], 80)
    assert terminal.end()[0] == 0
    seen = max(terminal.screens, key=len).splitlines()
    assert seen[0].startswith("  70,000 files, 5.0 GB, of 3 task manifests; an earlier run had begun")
    assert "  worker 1 on 10.0.0.1 was lost and is being replaced: the node died" in seen
    assert seen[-4].endswith("0 of 70,000 files")
    assert seen[-3:] == [
        "  0 s, 0 bytes of 5.0 GB, 1 worker",
        "  1 worker live, 1 lost",
        "  the store throttles: 850 requests per second",
    ]


def test_a_log_line_stays_above_what_is_drawn(files, dest: Path):
    terminal = Terminal(slow_commit(dest, "warn"), 80)
    assert terminal.end()[0] == 0
    assert "a log line that must be seen" in terminal.screen
    drawn_after = [screen for screen in terminal.screens if "must be seen" in screen]
    assert any("rename_files" in screen for screen in drawn_after)


def test_ctrl_c_on_a_terminal_is_answered_and_cancels_in_order(files, dest: Path, tmp_path: Path):
    renaming = tmp_path / "renaming"  # touched at the begin of a rename, which the answer can outrun
    code = SLOW.replace("time.sleep(0.1)", f"open({str(renaming)!r}, 'w').close(); time.sleep(2.0)")
    terminal = Terminal([sys.executable, "-c", code, str(dest)], 80)
    wait_for(renaming.exists)
    terminal.process.send_signal(signal.SIGINT)
    exit_code, _ = terminal.end()
    assert exit_code == 3
    assert any("cancelling; press Ctrl-C again to stop at once" in screen for screen in terminal.screens)
    assert "the commit of job job_1 was cancelled" in terminal.text
    assert "run the same command to finish it" in terminal.text
    assert "━" not in terminal.screen
    assert "Traceback" not in terminal.screen
    assert not terminal.cursor_is_hidden
    assert 0 < visible(dest) < FILES


STUCK = SLOW.replace("time.sleep(0.1)", "time.sleep(30)")


def test_a_second_ctrl_c_on_a_terminal_ends_at_once_and_gives_the_cursor_back(files, dest: Path):
    terminal = Terminal([sys.executable, "-c", STUCK, str(dest)], 80)
    for expected in ("rename_files", "cancelling; press Ctrl-C again to stop at once"):
        wait_for(lambda text=expected: any(text in screen for screen in terminal.screens))
        terminal.process.send_signal(signal.SIGINT)
    exit_code, _ = terminal.end()
    assert exit_code == 3
    assert "ray-committer: stopped at once; run the same command to finish" in terminal.text
    assert not terminal.cursor_is_hidden


def test_a_terminal_that_goes_away_does_not_end_the_commit(files, dest: Path, tree):
    terminal = Terminal(slow_commit(dest), 80)
    wait_for_files(dest)
    terminal.hang_up()
    exit_code, output = terminal.end()
    assert exit_code == 0
    assert output.startswith("job job_1 is committed")
    assert tree() == files


def test_a_reader_of_lines_that_goes_away_does_not_end_the_commit(files, dest: Path, tree):
    reader, writer = os.pipe()
    process = subprocess.Popen(
        slow_commit(dest, "warn"), stdout=subprocess.PIPE, stderr=writer, text=True
    )
    os.close(writer)
    os.close(reader)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.startswith("job job_1 is committed")
    assert tree() == files


def test_lines_say_what_matters_and_now_and_then_how_far_it_is(capsys):
    with lines(every=0.05) as shown:
        for stage in ("job_stage_setup", "job_stage_load_manifests", "job_stage_preflight"):
            shown.event(StageStarted(stage))
            shown.event(StageEnded(stage, 0.1))
        shown.event(JobLoaded(3, 1_000, 2_000_000, resumed=True))
        shown.event(StageStarted("job_stage_rename_files"))
        time.sleep(0.2)
        shown.event(StageEnded("job_stage_rename_files", 725.0))
        shown.event(StageEnded("committer_commit_job", 730.0))
        shown.event(Notice("somebody should read this"))
    out, err = capsys.readouterr()
    assert out == ""
    told = [line for line in err.splitlines() if "of 1,000" not in line]
    assert told == [
        "  load_manifests",
        "  1,000 files, 2.0 MB, of 3 task manifests; an earlier run had begun to move them",
        "  rename_files",
        "  rename_files took 12 min 5 s",
        "  somebody should read this",
    ]
    assert "  rename_files, 0 s, 0 of 1,000 files in place, 0 bytes of 2.0 MB" in err
