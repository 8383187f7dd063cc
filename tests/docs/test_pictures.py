"""The pictures of the pages are what their scripts make: of a benchmark's result, and of a real run."""

from __future__ import annotations

import importlib
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


@pytest.mark.parametrize("name", NUMBERS)
def test_a_picture_is_what_its_result_says(name: str):
    ET.fromstring(NUMBERS[name])
    assert (PICTURES / name).read_text() == NUMBERS[name], "run: python -m docs.pictures.numbers"
    assert f"(pictures/{name})" in (ROOT / "docs/numbers.md").read_text()


MEDIAN = {"median": {"seconds": 2.5, "driver_mb": 180.0, "seconds_lost": 0.0}}
STATED = {"commit": "abc", "host": {"cores": 2}}
RESULTS = {
    "peers": {
        "commits": {
            "20 ms": {"2,000x1": {"ray_committer, cold": MEDIAN, "v1": {**MEDIAN, "computed": True}}},
            "HDFS": {"1x2": {"a & b": MEDIAN}},
            "the published commit": {"1x2": {"v1": MEDIAN}},
            "S3, 35 ms": {"1x2": {"not drawn": MEDIAN}},
        }
    },
    "growth": {
        "series": {
            name: {"points": [{name: 1, **MEDIAN}, {name: 1000, **MEDIAN}]}
            for name in ("files", "manifests", "workers", "partitions")
        }
    },
    "faults": {"faults": {"none": MEDIAN, "worker": MEDIAN, "a new one": MEDIAN}},
    "estimates": {
        "in_flight": 16,
        "curves": {"1000000": {"a": {"seconds": {"1": 4e3, "2": 2e3}}, "b": {"seconds": {"1": 9.0}}}},
    },
}


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_has_pictures_with_all_its_names(name: str):
    result = {**RESULTS[name], **STATED}
    drawn = script("numbers").DRAWN[name](result)
    assert drawn == script("numbers").DRAWN[name](json.loads(json.dumps(result)))
    texts = {line.text for one in drawn.values() for line in ET.fromstring(one).iter(f"{SVG}text")}
    names = {
        "peers": {"ray_committer, cold", "v1", "2,000 tasks of 1 file", "a & b", "2.5 s"},
        "growth": {"files", "manifests, of as many files", "partitions", "Time"},
        "faults": {"a worker is killed", "a new one", "0.0 s"},
        "estimates": {"1 million files", "a", "b"},
    }
    assert names[name] - texts == set()


def test_an_axis_goes_from_its_first_tick_to_its_last():
    axes = script("axes")
    times = axes.time_axis([2.0, 50.0])
    assert [label for _, label in times.ticks] == ["1 s", "10 s", "1 min"]
    assert [times.share(value) for value in (0.5, 1.0, 60.0, 99.0)] == [0, 0, 1, 1]
    linear = axes.linear_axis([4_917.0])
    assert [label for _, label in linear.ticks] == ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]
    assert linear.share(2_500) == 0.5
    assert [label for _, label in axes.item_axis([1, 1024]).ticks] == ["1", "10", "100", "1,000"]
    assert [label for _, label in axes.item_axis([1, 8]).ticks] == ["1", "2", "4", "8"]


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
