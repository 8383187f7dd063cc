"""The files of a job whose names need quotes, one of them in two parts; and a task without files."""

from __future__ import annotations

TABLE = "table öne"
PART_BYTES = 5 * 1024 * 1024
TASKS: dict[int, dict[str, bytes]] = {
    0: {
        "p=1/plain": b"aaa",
        "name=é日本/ü€.txt": b"1",
        "emoji=😀/🚀.bin": b"22",
        "name=100%/x%20y.txt": b"333",
        "name=a b+c&d;e/f#g?.txt": b"4",
        "q=\"quo'te/<{|}^`>\\.txt": b"5",
        "tilde=~!*'()/@$,=.txt": b"",
    },
    1: {"large": b"z" * (PART_BYTES + 1)},
    2: {},
}
FILES = {f"{TABLE}/{name}": data for files in TASKS.values() for name, data in files.items()}
"""By the names of their objects."""
