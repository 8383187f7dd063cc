"""The progress of a commit in a notebook."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import ray_committer
from ray_committer.events import Event, FilesRenamed, JobLoaded, Notice, StageStarted, ignore
from ray_committer.protocol import statistic_names as names
from ray_committer.report.notebook import notebook_display, shown_in_notebook


class Cell:
    """What is below a cell; a call, as of ``IPython.display.display``, returns it as the handle."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.drawn = threading.Event()

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.texts.append(data["text/plain"])
        self.drawn.set()


def test_the_progress_is_drawn_again_and_notices_stay():
    cell = Cell()
    with shown_in_notebook(ignore, cell, every=0.01) as sink:
        sink(JobLoaded(2, 10, 1000, False))
        sink(StageStarted(names.RENAME_FILES))
        sink(FilesRenamed(4, 10, 400, 1000))
        sink(Notice("look at this"))
        cell.drawn.clear()
        assert cell.drawn.wait(10)
        while "4 of 10 files in place" not in cell.texts[-1]:
            cell.drawn.clear()
            assert cell.drawn.wait(10)
        assert cell.texts[-1].startswith("look at this\nrename_files, ")
    assert cell.texts[-1] == "look at this"


def test_a_failed_commit_keeps_its_notices():
    cell = Cell()
    try:
        with shown_in_notebook(ignore, cell, every=100) as sink:
            sink(Notice("look at this"))
            raise KeyError
    except KeyError:
        pass
    assert cell.texts[-1] == "look at this"


def test_who_listens_to_the_events_shows_the_progress():
    cell, events = Cell(), list[Event]()
    with shown_in_notebook(events.append, cell) as sink:
        sink(Notice("n"))
    assert (cell.texts, events) == ([], [Notice("n")])


def test_elsewhere_nothing_is_shown(write_job, dest: Path):
    assert notebook_display() is None
    with shown_in_notebook(ignore) as sink:
        assert sink is ignore
    write_job({0: {"a": "x"}})
    assert ray_committer.commit_job(str(dest)).moved == 1


def test_only_a_kernel_is_a_notebook(monkeypatch):
    import sys
    from types import ModuleType, SimpleNamespace

    shell: Any = SimpleNamespace()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.display = Cell()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    assert notebook_display() is None
    shell.kernel = object()
    assert notebook_display() is display.display  # type: ignore[attr-defined]


class BrokenCell(Cell):
    def update(self, data: dict[str, str], *, raw: bool) -> None:
        raise ConnectionError


def no_cell(*_: object, **__: object) -> None:
    raise ConnectionError


@pytest.mark.parametrize("display", [BrokenCell(), no_cell])
def test_a_display_that_fails_stops_nothing(display: Any):
    with shown_in_notebook(ignore, display, every=0.01) as sink:
        sink(Notice("look at this"))
