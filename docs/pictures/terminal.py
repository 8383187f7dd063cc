"""Record a run of ``ray-committer demo`` on a terminal in colour, as ``terminal.svg``.

A commit of 2,000 files is killed, and the same command finishes it. The picture has what was on the
terminal at the end, but for the name of the scratch directory.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyte

PICTURE = Path(__file__).with_name("terminal.svg")
COLUMNS, ROWS = 122, 120
SHOWN, USER = "/home/you", "you"
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
COLOURS = {
    "default": "#d0d7de",
    "green": "#3fb950",
    "red": "#ff7b72",
    "cyan": "#56d4dd",
    "blue": "#79c0ff",
    "brown": "#d29922",
    "magenta": "#d2a8ff",
}


class Piece(NamedTuple):
    """Text of one colour."""

    text: str
    colour: str = "default"
    is_bold: bool = False


Line = list[Piece]


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(record()))


def record() -> list[Line]:
    """The lines of the terminal after a whole run."""
    with tempfile.TemporaryDirectory() as scratch:
        screen = run([sys.executable, "-m", "ray_committer.cli", "demo"], scratch)
    lines = [_pieces(screen.buffer[row]) for row in range(ROWS)]
    while lines and not _text(lines[-1]):
        lines.pop()
    command: Line = [Piece("$ ray-committer demo", is_bold=True)]
    return [command, *([_shown(piece, scratch) for piece in line] for line in lines)]


def run(command: list[str], directory: str) -> pyte.Screen:
    """Run a command with a terminal of its own."""
    screen = pyte.Screen(COLUMNS, ROWS)
    screen.set_mode(pyte.modes.LNM)
    stream = pyte.ByteStream(screen)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LOGNAME": USER}
    process = subprocess.Popen(
        command, cwd=directory, env=environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    with suppress(OSError):  # the process has closed the other end
        while data := os.read(master, 1 << 16):
            stream.feed(data)
    os.close(master)
    if process.wait():
        raise ChildProcessError("\n".join(screen.display).rstrip())
    return screen


def text_of(lines: list[Line]) -> list[str]:
    """The lines without their colours."""
    return [_text(line) for line in lines]


def draw(lines: list[Line]) -> str:
    """The lines as SVG."""
    width, height = 992, 17 * len(lines) + 52
    rows = "\n".join(_row(line, 44 + 17 * number) for number, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'role="img" '
        'aria-label="A commit that is killed, and the same command that finishes it">\n'
        f"<style>text{{font:13px {FONT};white-space:pre}}.bold{{font-weight:600}}"
        + "".join(f".{name}{{fill:{value}}}" for name, value in COLOURS.items())
        + f'</style>\n<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>\n'
        '<circle cx="22" cy="18" r="5" fill="#ff5f57"/><circle cx="40" cy="18" r="5" fill="#febc2e"/>'
        '<circle cx="58" cy="18" r="5" fill="#28c840"/>\n'
        f"{rows}\n</svg>\n"
    )


def _pieces(row: dict[int, pyte.screens.Char]) -> Line:
    def style(character: pyte.screens.Char) -> tuple[str, bool]:
        colour = character.fg.removeprefix("bright")
        return (colour if colour in COLOURS else "default"), bool(character.bold)

    runs = groupby((row[column] for column in range(COLUMNS)), key=style)
    line = [Piece("".join(one.data for one in some), *key) for key, some in runs]
    if line:
        line[-1] = line[-1]._replace(text=line[-1].text.rstrip())
    return [piece for piece in line if piece.text]


def _shown(piece: Piece, scratch: str) -> Piece:
    return piece._replace(text=piece.text.replace(scratch, SHOWN))


def _text(line: Line) -> str:
    return "".join(piece.text for piece in line).rstrip()


def _row(line: Line, y: int) -> str:
    spans = "".join(
        f'<tspan class="{piece.colour}{" bold" if piece.is_bold else ""}">'
        f"{html.escape(piece.text, quote=False)}</tspan>"
        for piece in line
    )
    return f'<text x="20" y="{y}" xml:space="preserve">{spans}</text>'


if __name__ == "__main__":
    main()
