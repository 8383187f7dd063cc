"""The pictures of the pages are what their scripts make: of a benchmark's result, and of a real run."""

from __future__ import annotations

import importlib.util
import json
import re
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

from tests.docs import ways
from tests.docs.blocks import ROOT, all_blocks

PICTURES = ROOT / "docs" / "pictures"
BLOCKS = all_blocks()
SVG = "{http://www.w3.org/2000/svg}"
STEADY = re.compile(
    r"\$ |job |committed: |[A-Z]"
    r"| +(undecided|recorded|finish it|or give it up|files|renames per second|an earlier)"
)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PICTURES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_chart_is_what_the_result_says():
    scaling = script("scaling")
    result = json.loads(scaling.RESULT.read_text())
    picture = scaling.PICTURE.read_text()
    assert picture == scaling.draw(result), "run: python docs/pictures/scaling.py"
    ET.fromstring(picture)
    for one in result["workers"].values():
        assert f"{one['median']['renames_per_second']:,.0f} (" in picture


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
