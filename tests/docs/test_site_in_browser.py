"""The built site in a browser: each page fits a narrow screen, is dark if asked, and fetches nothing."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.servers.chromium import Page, browser, open_page

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="this Chromium is built for x86-64"),
    pytest.mark.wide,
    pytest.mark.server,
    pytest.mark.xdist_group("chromium"),
    pytest.mark.timeout(600),
]

PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it; a warning is an error."""
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return made


def test_each_page_fits_a_narrow_screen_and_fetches_nothing(site: Path):
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    assert len(pages) > 40

    async def look(page: Page) -> tuple[list[str], list[str]]:
        wide, fetched = [], []
        for file in pages:
            page.requests = []
            await page.show(file, width=400, scheme="light")
            if await page.evaluate("document.documentElement.scrollWidth") > 400:
                wide.append(str(file.relative_to(site)))
            fetched += [
                url for url in page.requests if not url.startswith(("file://", "data:", "blob:"))
            ]
        return wide, fetched

    assert in_browser(look) == ([], [])


@pytest.mark.parametrize(
    ("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(30, 35, 41)")]
)
def test_it_has_the_colours_that_the_reader_asks_for(site: Path, scheme: str, paper: str):
    async def look(page: Page) -> str:
        await page.show(site / "runbook.html", width=1400, scheme=scheme)
        return await page.evaluate(PAPER)

    assert in_browser(look) == paper


def in_browser(look):
    async def run(address: str):
        async with open_page(address) as page:
            return await look(page)

    with browser() as address:
        return asyncio.run(run(address))
