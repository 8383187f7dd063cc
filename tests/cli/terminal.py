"""A process whose standard error is a terminal, and what a person sees on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence

import pyte

ROWS = 40


class Terminal:
    """Runs a command and draws what it writes to standard error, as a terminal of ROWS lines does.

    `screens` are those that were seen, without the spaces at the ends of their lines; `raw` is all
    that was written. `with_output` makes standard output the same terminal.
    """

    def __init__(
        self,
        command: Sequence[str],
        columns: int,
        env: Mapping[str, str] | None = None,
        *,
        with_output: bool = False,
    ) -> None:
        self._screen = pyte.Screen(columns, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.screens: list[str] = []
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=slave if with_output else subprocess.PIPE,
            stderr=slave,
            text=True,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **(env or {})},
        )
        os.close(slave)
        self._hung_up = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def hang_up(self) -> None:
        """Close the terminal while the process runs."""
        self._hung_up.set()
        self._reader.join()

    def end(self) -> tuple[int, str]:
        """Wait for the process: its exit code, and its standard output if that is no terminal."""
        output, _ = self.process.communicate(timeout=60)
        self._reader.join()
        return self.process.returncode, output or ""

    @property
    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def text(self) -> str:
        """What is on the screen, without the ends of its lines, which come where a line is full."""
        return "".join(self._screen.display)

    @property
    def cursor_is_hidden(self) -> bool:
        return self._screen.cursor.hidden

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the process has closed the other end
            while not self._hung_up.is_set() and (data := os.read(self._master, 1 << 16)):
                self.raw += data
                self._stream.feed(data)
                self.screens.append(self.screen)
        os.close(self._master)
