"""The HTML report as a browser shows it: wide and narrow, light and dark."""

from __future__ import annotations

import asyncio
import platform
import struct
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ray_committer.report.commit_report import CommitReport
from ray_committer.report.html import report_html
from tests.report.cases import hard, quiet
from tests.servers.chromium import Page, browser, open_page

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="this Chromium is built for x86-64"),
    pytest.mark.server,
    pytest.mark.xdist_group("chromium"),
]

WIDTHS = (1400, 400)
# What sticks out of the page to its right, by the first words in it.
STICKS_OUT = """[...document.querySelectorAll("body *")]
  .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(one => one.tagName + ": " + one.textContent.slice(0, 60))"""
# Text that its own box cuts off or that reaches over the next cell.
CELLS_TOO_SMALL = """[...document.querySelectorAll("td, th, dd, dt, h1, li, pre")]
  .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.textContent.slice(0, 60))"""
CONTRAST = """(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(one => one / 255)
      .map(one => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = one => {
    const colour = getComputedStyle(one).backgroundColor;
    return colour == "rgba(0, 0, 0, 0)" ? paper(one.parentElement) : colour;
  };
  return Math.min(...[...document.querySelectorAll("h1, h2, p, li, dt, dd, td, th, pre, small, .tag")]
    .map(one => [light(getComputedStyle(one).color), light(paper(one))])
    .map(([ink, back]) => (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05)));
})()"""


InBrowser = Callable[[Callable[[Page], Awaitable[Any]]], Any]


@pytest.fixture(scope="module")
def in_browser() -> Iterator[InBrowser]:
    """Looks at a page in a tab of its own, and gives what it saw."""
    with browser() as address:

        async def run(look: Callable[[Page], Awaitable[Any]]) -> Any:
            async with open_page(address) as page:
                return await look(page)

        yield lambda look: asyncio.run(run(look))


@pytest.fixture(params=[quiet, hard], ids=["quiet", "hard"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    report: CommitReport = request.param()
    path = tmp_path / "report.html"
    path.write_text(report_html(report))
    return path


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_and_nothing_is_cut_off(in_browser: InBrowser, file: Path, width: int):
    async def look(page: Page) -> tuple[int, list[str], list[str]]:
        await page.show(file, width=width, scheme="light")
        await page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        return (
            await page.evaluate("document.documentElement.scrollWidth"),
            await page.evaluate(STICKS_OUT),
            await page.evaluate(CELLS_TOO_SMALL),
        )

    assert in_browser(look) == (width, [], [])


def test_light_and_dark_differ_and_can_both_be_read(in_browser: InBrowser, file: Path):
    async def look(page: Page) -> list[tuple[str, float, bytes]]:
        found = []
        for scheme in ("light", "dark"):
            await page.show(file, width=1400, scheme=scheme)
            paper = await page.evaluate(
                "getComputedStyle(document.querySelector('.rc')).backgroundColor"
            )
            found.append((paper, await page.evaluate(CONTRAST), await page.picture()))
        return found

    (light, light_contrast, day), (dark, dark_contrast, night) = in_browser(look)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(18, 22, 28)")
    assert min(light_contrast, dark_contrast) >= 4.5  # WCAG AA
    assert day != night
    assert struct.unpack(">II", day[16:24])[0] == 1400


def test_no_request_leaves_and_no_script_runs(in_browser: InBrowser, file: Path):
    async def look(page: Page) -> tuple[list[str], int]:
        await page.show(file, width=1400, scheme="light")
        return page.requests, await page.evaluate("document.scripts.length")

    assert in_browser(look) == ([], 0)


def test_a_bar_stands_where_its_stage_was(in_browser: InBrowser, tmp_path: Path):
    path = tmp_path / "report.html"
    path.write_text(report_html(quiet()))

    async def look(page: Page) -> list[list[float]]:
        await page.show(path, width=1400, scheme="light")
        return await page.evaluate(
            """(() => { const all = document.querySelector("td.bar").getBoundingClientRect();
            return [...document.querySelectorAll("td.bar i")].map(one => one.getBoundingClientRect())
              .map(one => [(one.left - all.left) / all.width, one.width / all.width]); })()"""
        )

    expected = [(2.0, 0.8), (3.0, 5.1), (8.6, 0.4)]  # seconds of 9.2, as in cases.quiet
    for (left, width), (began, seconds) in zip(in_browser(look), expected, strict=True):
        assert (left, width) == (
            pytest.approx(began / 9.2, abs=0.003),
            pytest.approx(seconds / 9.2, abs=0.003),
        )
