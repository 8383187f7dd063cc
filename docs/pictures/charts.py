"""Charts as SVG, for pictures of results: bars in groups, and lines on logarithmic axes.

The same values make the same bytes, which a test compares with the committed pictures. No library: it
would draw them differently in its next version. A drawing is 480 wide, so that its text can be read on a
screen of 400 pixels.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from docs.pictures.axes import Axis, Scale

WIDTH, SHOWN_WIDTH, MARGIN = 480, 640, 16
BARS_END, ROW, PANEL_HEIGHT = 392, 21, 216
"""Where bars end at most, the height of one, and that of a panel of lines."""
LETTER = 7.2
"""The width of a letter, at most."""

_FIXED = (
    "text{font:13px system-ui,sans-serif}.title{font-weight:600;font-size:15px}.name{font-weight:600}"
    ".small{font-size:12px}.line{fill:none;stroke-width:2.5}.point{stroke-width:2}"
    ".ideal{stroke-width:2;stroke-dasharray:5 4}"
    ".computed{stroke-width:1.5;stroke-dasharray:4 3;fill-opacity:.25}"
)
_COLOURS = {
    "text": ("fill", "#1c2430", "#e4e9f0"),
    ".small": ("fill", "#5a6675", "#9aa7b6"),
    ".paper,.point": ("fill", "#ffffff", "#1c232d"),
    ".grid": ("stroke", "#dce2e9", "#2b3440"),
    ".ideal": ("stroke", "#a86100", "#f0b04a"),
    ".ours": ("fill", "#2f6fb3", "#5b9fe3"),
    ".other": ("fill", "#8b98a8", "#6b7889"),
    ".computed": ("stroke", "#5a6675", "#9aa7b6"),
    ".c0": ("stroke", "#2f6fb3", "#5b9fe3"),
    ".c1": ("stroke", "#a86100", "#f0b04a"),
    ".c2": ("stroke", "#2e8559", "#5cc08e"),
    ".c3": ("stroke", "#a8437a", "#e887b8"),
    ".c4": ("stroke", "#6b4fb8", "#b09af0"),
    ".c5": ("stroke", "#5a6675", "#9aa7b6"),
}
"""What has a colour, and which one on white and on dark paper: those of the report, and of lines."""
_DASHES = ("none", "8 3", "2 3", "10 3 2 3", "5 2", "14 3")
"""Lines differ without colours, too."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with a label before it and a text behind it; `kind` is ``ours`` or ``other``.

    A value that was `computed`, not measured, has a dashed frame; a dashed line shows the `ideal` value.
    """

    label: str
    value: float
    text: str
    kind: str = "other"
    computed: bool = False
    ideal: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines by their names, each of points; the same name has the same colour in each panel."""

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    x: Axis
    y: Axis
    x_name: str


def bars(title: str, groups: Mapping[str, Sequence[Bar]], axis: Axis, *, notes: Sequence[str]) -> str:
    """Draw bars from left to right, with the name of each group above its bars."""
    longest = max(len(bar.label) for rows in groups.values() for bar in rows)
    scale = Scale(axis, min(270.0, MARGIN + LETTER * longest + 8), BARS_END)
    top = y = _below_title(title)
    parts = list[str]()
    for name, rows in groups.items():
        if name:
            parts.append(_text(MARGIN, y + 15, name, "name"))
            y += ROW
        for bar in rows:
            parts.extend(_bar(bar, y, scale))
            y += ROW
        y += 9
    return _picture(title, [*_grid(scale, top, y), *parts], y + 22, notes)


def lines(title: str, panels: Sequence[Panel], *, columns: int, notes: Sequence[str]) -> str:
    """Draw lines in panels, and their names once above all panels if there are several."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    parts, y = list[str](), _below_title(title)
    if len(names) > 1:
        for number, name in enumerate(names):
            x, middle = MARGIN + (number % 2) * WIDTH // 2, y + 18 * (number // 2) + 8
            parts.append(_polyline([(x, middle), (x + 30, middle)], number))
            parts.append(_text(x + 38, middle + 4, name))
        y += 18 * -(-len(names) // 2) + 8
    width = (WIDTH - MARGIN) / columns
    for number, panel in enumerate(panels):
        parts.extend(_panel(panel, names, number % columns * width, y, width))
        if number % columns == columns - 1:
            y += PANEL_HEIGHT
    return _picture(title, parts, y, notes)


def _bar(bar: Bar, y: float, scale: Scale) -> Iterator[str]:
    end = scale.place(bar.value)
    kind = f"{bar.kind} computed" if bar.computed else bar.kind
    yield _text(scale.begin - 8, y + 14, bar.label, anchor="end")
    yield (
        f'<rect x="{_n(scale.begin)}" y="{_n(y + 3)}" width="{_n(end - scale.begin)}" '
        f'height="{ROW - 6}" class="{kind}"/>'
    )
    if bar.ideal is not None:
        best = scale.place(bar.ideal)
        yield _line(best, y, best, y + ROW, "ideal")
        end = max(end, best)
    yield _text(end + 6, y + 14, bar.text)


def _grid(scale: Scale, top: float, below: float) -> Iterator[str]:
    """A line at each tick of an axis from left to right, and the labels that have room."""
    free = -math.inf
    for value, label in scale.axis.ticks:
        x, half = scale.place(value), LETTER * len(label) / 2
        yield _line(x, top, x, below, "grid")
        if x - half >= free:
            yield _text(x, below + 15, label, "small", "middle")
            free = x + half + 4


def _panel(panel: Panel, names: list[str], left: float, top: float, width: float) -> Iterator[str]:
    below = top + PANEL_HEIGHT - 48
    x, y = Scale(panel.x, left + 62, left + width - 12), Scale(panel.y, below, top + 28)
    yield _text(left + MARGIN, top + 14, panel.title, "name")
    for value, label in panel.y.ticks:
        yield _line(x.begin, y.place(value), x.end, y.place(value), "grid")
        yield _text(x.begin - 6, y.place(value) + 4, label, "small", "end")
    yield from _grid(x, y.end, below)
    yield _text((x.begin + x.end) / 2, below + 32, panel.x_name, "small", "middle")
    for name, points in panel.lines.items():
        places = [(x.place(one), y.place(other)) for one, other in points]
        number = names.index(name)
        yield _polyline(places, number)
        for one, other in places:
            yield f'<circle cx="{_n(one)}" cy="{_n(other)}" r="2.5" class="point c{number % 6}"/>'


def _polyline(points: Sequence[tuple[float, float]], number: int) -> str:
    places = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    return (
        f'<polyline points="{places}" class="line c{number % 6}" '
        f'stroke-dasharray="{_DASHES[number % len(_DASHES)]}"/>'
    )


def _picture(title: str, parts: Sequence[str], y: float, notes: Sequence[str]) -> str:
    """The whole drawing: its title, its parts down to `y`, and notes in small letters below them."""
    texts, below = list[str](), y
    for number, words in enumerate(_wrapped_title(title)):
        texts.append(_text(MARGIN, 26 + 20 * number, words, "title"))
    for words in [line for note in notes for line in textwrap.wrap(note, 72)]:
        below += 16
        texts.append(_text(MARGIN, below, words, "small"))
    height = _n(below + 14)
    style = f"{_FIXED}{_colours(1)}@media (prefers-color-scheme:dark){{{_colours(2)}}}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{SHOWN_WIDTH}" '
        f'role="img" aria-label="{html.escape(title)}"><style>{style}</style>'
    )
    paper = f'<rect width="{WIDTH}" height="{height}" rx="5" class="paper"/>'
    return "\n".join([head, paper, *texts, *parts, "</svg>", ""])


def _colours(paper: int) -> str:
    return "".join(f"{what}{{{one[0]}:{one[paper]}}}" for what, one in _COLOURS.items())


def _wrapped_title(title: str) -> list[str]:
    return textwrap.wrap(title, 54)


def _below_title(title: str) -> int:
    return 20 + 20 * len(_wrapped_title(title))


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{kind}{anchor}>{html.escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" class="{kind}"/>'


def _n(value: float) -> str:
    return f"{round(value, 1):g}"
