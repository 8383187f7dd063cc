"""How many directories went whole, and why not the others, in one line."""

from __future__ import annotations

import msgspec
import pytest

from ray_committer.protocol.whole import ByFile
from ray_committer.report.html import report_html
from ray_committer.report.text import report_lines
from ray_committer.report.whole import whole_texts
from tests.report.cases import quiet

CASES: list[tuple[int, int, dict[str, int], list[str]]] = [
    (3, 60, {}, ["3 of 3 directories went whole, with 60 files"]),
    (
        1_090,
        1,
        {ByFile.REFUSED: 1, ByFile.THERE: 4},
        [
            "1,090 of 1,095 directories went whole, with 1 file",
            "4 there before",
            "1 refused by the store",
        ],
    ),
    (0, 0, {ByFile.THERE: 2}, ["0 of 2 directories went whole", "2 there before"]),
]


@pytest.mark.parametrize(("whole", "files", "by_file", "texts"), CASES)
def test_the_texts_have_all_directories_and_only_reasons_that_occur(
    whole: int, files: int, by_file: dict[str, int], texts: list[str]
):
    assert whole_texts(whole, files, by_file) == texts
    planned = whole_texts(whole, files, by_file, verb="would go")
    assert planned == [text.replace("went", "would go") for text in texts]


def test_each_reason_has_words_of_its_own():
    reasons = {tuple(whole_texts(0, 0, {why: 3})[1:]) for why in ByFile}
    assert len(reasons) == len(ByFile)


def test_a_report_says_it_in_one_line_as_text_and_as_a_page():
    report = msgspec.structs.replace(quiet(), whole=8, whole_files=96, by_file={"it is there": 4})
    line = "8 of 12 directories went whole, with 96 files; by file: 4 there before"
    assert line in " ".join(" ".join(report_lines(report)).split())
    assert line in report_html(report)


def test_a_report_of_a_job_without_directories_has_no_such_line():
    lines = report_lines(msgspec.structs.replace(quiet(), directories=0))
    assert not any("leaf" in line or "whole" in line for line in lines)
