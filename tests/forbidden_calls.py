"""Forbid system calls in this process and all that it starts, as a file system without them does.

``python -m tests.forbidden_calls COMMAND ...`` runs a command where ``renameat2`` has no flags, such as
the tests: then each rename without replacing is a link and an unlink. With ``--links``, nothing can be
linked either, as on exFAT. The kernel does it (seccomp), so processes cannot get them back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_LOAD, _IS_EQUAL, _ANSWER = 0x20, 0x15, 0x06
_FOURTH_ARGUMENT = 16 + 4 * 8
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
_LINKS = {"x86_64": (86, 265), "aarch64": (37,)}
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def forbid(*, links: bool = False) -> None:
    """Let ``renameat2`` with flags fail from now on, and also hard links."""
    machine = os.uname().machine
    steps = [(_LOAD, 0, 0, 0)]
    for number in _LINKS[machine] if links else ():
        steps += [(_IS_EQUAL, 0, 1, number), (_ANSWER, 0, 0, _FAIL | errno.EPERM)]
    steps += [
        (_IS_EQUAL, 0, 3, _RENAMEAT2[machine]),
        (_LOAD, 0, 0, _FOURTH_ARGUMENT),
        (_IS_EQUAL, 1, 0, 0),
        (_ANSWER, 0, 0, _FAIL | errno.EINVAL),
        (_ANSWER, 0, 0, _ALLOW),
    ]
    program = _Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    library = ctypes.CDLL(None, use_errno=True)
    for call in (
        (_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0),
    ):
        if library.prctl(*call):
            raise OSError(ctypes.get_errno(), "system calls cannot be forbidden here")


def main() -> None:
    """Run the command line's command."""
    words = sys.argv[1:]
    links = words[:1] == ["--links"]
    forbid(links=links)
    command = words[links:]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
