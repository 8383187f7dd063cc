"""The pictures and tables of the pages are what their scripts make: of results, and of a real run."""

from __future__ import annotations

import importlib
import json
import re
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from docs import figures
from tests.docs import ways
from tests.docs.blocks import ROOT, all_blocks

PICTURES = ROOT / "docs" / "pictures"
BLOCKS = all_blocks()
SVG = "{http://www.w3.org/2000/svg}"
STEADY = re.compile(
    r"\$ |job |committed: |[A-Z]"
    r"| +(undecided|recorded|finish it|or give it up|files|files per second|an earlier)"
)


def script(name: str) -> ModuleType:
    return importlib.import_module(f"docs.pictures.{name}")


NUMBERS = dict(script("numbers").pictures())


def test_the_chart_is_what_the_result_says():
    scaling = script("scaling")
    result = json.loads(scaling.RESULT.read_text())
    picture = scaling.PICTURE.read_text()
    assert picture == scaling.draw(result), "run: python -m docs.pictures.scaling"
    ET.fromstring(picture)
    for one in result["workers"].values():
        assert f"{one['median']['renames_per_second']:,.0f} (" in picture


def test_the_tables_are_what_the_results_say():
    changed = [path.name for path, text in figures.pages() if path.read_text() != text]
    assert changed == [], "run: python -m docs.figures"


@pytest.mark.parametrize("name", NUMBERS)
def test_a_picture_is_what_its_result_says(name: str):
    ET.fromstring(NUMBERS[name])
    assert (PICTURES / name).read_text() == NUMBERS[name], "run: python -m docs.pictures.numbers"
    assert f"(pictures/{name})" in (ROOT / "docs/numbers.md").read_text()


@pytest.mark.wide  # tests/cli/test_demo.py runs the same command
def test_the_terminal_shows_what_is_printed_today():
    terminal = script("terminal")
    picture = terminal.PICTURE.read_text()
    assert BLOCKS[ways.DEMO].text == "ray-committer demo\n"
    shown = ["".join(line.itertext()) for line in ET.fromstring(picture).iter(f"{SVG}text")]
    printed = terminal.text_of(terminal.record())
    assert steady(shown) == steady(printed), "run: python docs/pictures/terminal.py"


def steady(lines) -> list[str]:
    """What each run prints alike: commands, verdicts, stages, errors and labels, without numbers.

    Progress, and what a report finds, depend on how fast the machine is.
    """
    lines = (re.sub(r"\s+#+$", "", line) for line in lines)
    texts = (
        re.sub(r"[\d,.]*\d|\s+", lambda found: "0" if found[0].strip() else " ", line) for line in lines
    )
    return [text for text in texts if STEADY.match(text)]
