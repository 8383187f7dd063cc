"""Programs of Debian's packages for the tests: unpacked into a directory, never installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


def unpack(packages: Iterable[str], scratch: Path) -> Path:
    """Download `packages` into `scratch`; the directory below it where all of them are unpacked."""
    for command in ("apt-get", "dpkg-deb"):
        if shutil.which(command) is None:
            names = ", ".join(packages)
            raise RuntimeError(f"the tests take {names} from Debian and this machine has no {command!r}")
    download = ["apt-get", "-qq", "download", *packages]
    try:
        run(download, scratch)
    except RuntimeError:  # a new machine has no lists of packages
        run(["apt-get", "-qq", "update"], scratch)
        run(download, scratch)
    for package in scratch.glob("*.deb"):
        run(["dpkg-deb", "-x", str(package), "unpacked"], scratch)
    return scratch / "unpacked"


def run(command: list[str], directory: Path) -> None:
    """Run a command; `RuntimeError` with what it said if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shown = " ".join(command[:4])
        raise RuntimeError(f"{shown} ... failed:\n{done.stdout}{done.stderr}")
