"""``ray-committer explain``: what an error means, whether the data is safe, and what to run next.

The texts come from ``docs/errors.md``, which is in the wheel also.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ray_committer import errors
from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.help import did_you_mean
from ray_committer.cli.print import print_result
from ray_committer.errors import SettingsError

_SECTION = re.compile(r"^## (RC-\S+)\n\n(.+?)\n\n(.+?)(?=\n+## |\Z)", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^- (?:(Data|Next|Causes|More): )?(.+?)(?=\n- |\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^]]+)\]\(([^)#]*)[^)]*\)")
_UNBROKEN = "\xa0"
"""In place of a space in a command, so that lines are not broken there."""


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """The section of an error: what it means, the state of the data, what to run next, the causes, where
    to read more, and the class and exit code that it has."""

    id: str
    meaning: str
    data: str
    next: str
    causes: str
    more: str
    raised_as: str


@click.command(cls=Command)
@click.argument("error_id", metavar="[ID]", required=False)
@shared.output_option
def explain(error_id: str | None, output: str) -> None:
    """Explain an error: what it means, whether the data is safe, and what to run next.

    ID is the one in the last line of an error, with or without RC-, or the class of an exception.
    Without ID, all errors are listed.
    """
    pages = error_pages(_text())
    if error_id is None:
        rows = [(page.id, page.meaning) for page in pages.values()]
        print_result(output, {"errors": [*pages.values()]}, _table(rows))
        return
    page = _find(pages, error_id)
    print_result(output, page, [page.id, *_table(_rows(page))])


def error_pages(text: str) -> dict[str, ErrorPage]:
    """Return the sections of ``docs/errors.md`` by id, as plain text."""
    return {name: _page(name, meaning, rest) for name, meaning, rest in _SECTION.findall(text)}


def _page(name: str, meaning: str, rest: str) -> ErrorPage:
    bullets = {label: _plain(text) for label, text in _BULLET.findall(rest)}
    return ErrorPage(
        id=name,
        meaning=_plain(meaning),
        data=bullets["Data"],
        next=bullets["Next"],
        causes=bullets.get("Causes", ""),
        more=bullets.get("More", ""),
        raised_as=bullets[""],
    )


def _plain(text: str) -> str:
    """The text in one line; a link to another page becomes the name of that page."""
    line = " ".join(text.split())
    return _LINK.sub(lambda link: link[1] + (f" (docs/{link[2]})" if link[2] else ""), line)


def _text() -> str:
    """The page as the wheel has it, or as it is in a checkout."""
    package = Path(errors.__file__).parent
    packed = package / "errors.md"
    path = packed if packed.is_file() else package.parent / "docs" / "errors.md"
    return path.read_text(encoding="utf-8")


def _find(pages: Mapping[str, ErrorPage], given: str) -> ErrorPage:
    name = f"RC-{given.strip().lower().removeprefix('rc-')}"
    page = pages.get(name) or _by_class(pages.values()).get(name.removeprefix("RC-"))
    if page is None:
        what = f"no such error {given!r}{did_you_mean(name, pages)}"
        raise SettingsError(what, "run `ray-committer explain` to list them")
    return page


def _by_class(pages: Iterable[ErrorPage]) -> dict[str, ErrorPage]:
    """The pages of classes, by the name of the class in lower case."""
    classes = ((page, re.match(r"`(\w+)`", page.raised_as)) for page in pages)
    return {match[1].lower(): page for page, match in classes if match}


def _rows(page: ErrorPage) -> list[tuple[str, str]]:
    rows = [("Means", page.meaning), ("Data", page.data), ("Next", page.next)]
    rows += [("Causes", page.causes), ("More", page.more), ("Error", page.raised_as)]
    return [row for row in rows if row[1]]


def _table(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Two columns, as wide as the terminal at most; commands are not broken."""
    width = click.get_current_context().make_formatter().width
    column = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        lines = textwrap.wrap(
            re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", _UNBROKEN), text),
            width,
            initial_indent=f"  {name:<{column}}",
            subsequent_indent=" " * (column + 2),
            break_on_hyphens=False,
            break_long_words=False,
        )
        yield from (line.replace(_UNBROKEN, " ") for line in lines)
