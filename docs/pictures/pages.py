"""Take pictures of pages of the site as readers see them: wide and narrow, light and dark.

After ``make docs``, ``python -m docs.pictures.pages [PAGE...]`` writes them to ``build/pages``. They are
for the eyes of who changes the look, and are not kept.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.servers.chromium import browser, open_page

ROOT = Path(__file__).parents[2]
SITE, MADE = ROOT / "build" / "site", ROOT / "build" / "pages"
PAGES = ("index", "runbook", "comparison", "errors", "api/jobs")


async def take(address: str, names: list[str]) -> None:
    """Take the pictures of pages in the browser at an address, and print their names."""
    MADE.mkdir(parents=True, exist_ok=True)
    async with open_page(address) as page:
        for name in names:
            for width in (1400, 400):
                for scheme in ("light", "dark"):
                    for _ in range(2):  # the site remembers the colours of the page before
                        await page.show(SITE / f"{name}.html", width=width, scheme=scheme)
                        await page.evaluate("localStorage.clear()")
                    file = MADE / f"{name.replace('/', '-')}-{width}-{scheme}.png"
                    file.write_bytes(await page.picture())
                    print(file)


if __name__ == "__main__":
    with browser() as chromium:
        asyncio.run(take(chromium, sys.argv[1:] or [*PAGES]))
