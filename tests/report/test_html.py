"""The HTML report as text: escaped, small, without script or network, whatever it is told."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from ray_committer.protocol.commit_result import Outcome
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.html import report_fragment, report_html
from tests.report.cases import UGLY, hard, quiet, worker

CASES = [quiet(), hard(), CommitReport(destination="/t", job_id="j", outcome=Outcome.ALREADY_COMMITTED)]
MOST_BYTES = 200_000
VOID = {"meta", "br"}


class Elements(HTMLParser):
    """The elements of a page, which must all be closed, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("report", CASES, ids=lambda report: report.outcome)
def test_a_page_is_well_formed_and_neither_runs_nor_loads_anything(report: CommitReport):
    page = report_html(report)
    found = Elements(page)
    assert not found.names & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    followed = [value for name, value in found.attributes if name == "href"]
    assert followed == ([report.dashboard] if report.dashboard else [])
    assert not re.search(r"url\(|@import", page)
    assert len(page.encode()) < MOST_BYTES


def test_what_others_named_is_shown_and_never_obeyed():
    shown = "".join(Elements(report_html(hard())).text)
    assert "<script>alert(1)</script>" in shown
    assert UGLY in shown
    assert "<a href='https://example.com'>why</a>" in shown
    assert "<script" not in report_html(hard())


@pytest.mark.parametrize("address", ["javascript:alert(1)", 'http://"><script>alert(1)</script>', ""])
def test_only_an_address_of_a_dashboard_is_a_link(address: str):
    page = report_html(msgspec.structs.replace(quiet(), dashboard=address))
    assert "<script" not in page
    assert 'href="javascript' not in page
    link = '<a href="http://10.0.0.4:8265/#/jobs/04000000">'
    assert link in report_html(quiet())
    assert link not in page


@pytest.mark.slow
def test_a_page_stays_small_whatever_it_is_told():
    evil = "\"&<'😀" * 20_000
    rows = [worker(number, 10**9, 1.0, node=evil) for number in range(5000)]
    rows = [msgspec.structs.replace(row, worker=f"{evil}{row.worker}") for row in rows]
    report = msgspec.structs.replace(
        hard(),
        destination=evil,
        job_id=evil,
        error=evil,
        findings=[evil] * 5000,
        notices=[evil] * 5000,
        untold=[evil] * 5000,
        source=evil,
        command=evil,
        executor_reason=evil,
        dashboard=f"http://{evil}",
        storage_options=[evil] * 100,
        worker_rows=rows,
        proved={f"{evil}{number}": 1 for number in range(5)},
        host=evil,
        user=evil,
        versions={evil: evil},
        options=dict.fromkeys(["a", "b"], evil),
        links={f"{number}": evil for number in range(100)},
        stages=[msgspec.structs.replace(row, stage=evil) for row in hard().stages],
    )
    page = report_html(report)
    Elements(page)
    assert len(page.encode()) < MOST_BYTES
    assert "4,800 even faster workers are not in this file" in page
    assert "and 4,970 more, in the JSON report" in page


def test_a_report_shows_all_that_it_should():
    page = report_html(hard())
    for heading in (
        "Findings",
        "Stages",
        "Files in place over time",
        "Workers, slowest first",
        "Notes",
        "Run it again",
    ):
        assert f"<h2>{heading}</h2>" in page
    shown = "".join(Elements(page).text)
    assert all(finding in shown for finding in hard().findings)
    assert "is NOT committed" in shown
    assert page.count("<dt>") == 6
    assert page.count("<tr><td>worker") + page.count("<tr class=slow><td>worker") == 200
    assert page.index("worker 2 ") < page.index("worker 13<")  # slowest first


def test_a_commit_to_a_table_names_its_version():
    assert "of the table" not in report_html(quiet())
    report = msgspec.structs.replace(quiet(), table_version=1234)
    assert ">version 1,234 of the table</p>" in report_html(report)
    report = msgspec.structs.replace(report, validated=7)
    assert ">version 1,234 of the table</p>" in report_html(report)
    assert ">7 files compared with their manifests</p>" in report_html(report)


def test_slow_workers_are_seen_and_many_faster_ones_are_folded():
    page = report_html(quiet())
    assert page.count("<tr><td>worker") == 4
    assert "<details>" not in page
    assert "<details><summary>180 faster workers</summary>" in report_html(hard())


def test_a_page_says_when_and_where_and_how_the_commit_ran():
    page = report_html(quiet())
    for text in (
        "from 2024-01-01 12:10:03 UTC to 2024-01-01 12:10:12 UTC, on driver-0.cluster, by etl",
        "ray_committer 0.1.0, Python 3.11.9, Ray 2.60.1",
        "options: workers=4; summary_directory=gs://reports/2024",
        "_SUCCESS: /warehouse/table/_SUCCESS",
        "events: commit.jsonl",
    ):
        assert f"<li>{text}</li>" in page


def test_a_quiet_commit_says_so():
    assert "Nothing unusual happened." in report_html(quiet())
    assert "Nothing unusual happened." not in report_html(hard())


def test_a_notebook_shows_the_report_and_keeps_its_own_style():
    shown = quiet()._repr_html_()
    assert shown == report_fragment(quiet())
    assert "<html" not in shown
    style = shown[shown.index("<style>") + 7 : shown.index("</style>")]
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*\{", "", style))
    assert all(one.strip().startswith(".rc") for rule in selectors for one in rule.split(","))


def test_a_name_is_cut_between_characters():
    report = msgspec.structs.replace(quiet(), job_id="&" * 1000)
    page = report_html(report)
    assert re.search(r"(&amp;)+&hellip;", page)
    assert "&am&hellip;" not in page


def test_half_a_character_does_not_stop_a_report():
    assert "?" in report_html(msgspec.structs.replace(quiet(), error="\udcff"))
