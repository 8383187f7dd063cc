"""Which files may be linked is said as the kernel decides it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ray_committer.stores.local_rights import denied_links

_AS_NOBODY = """
import os, sys
from ray_committer.stores.local_rights import denied_links
root = sys.argv[1]
os.setgid(65534)
os.setuid(65534)
open(root + "/own", "w").close()
os.chmod(root + "/own", 0o200)
for name in sorted(os.listdir(root)):
    said = bool(denied_links([root + "/" + name]))
    try:
        os.link(root + "/" + name, root + "/linked", follow_symlinks=False)
        os.unlink(root + "/linked")
        found = False
    except PermissionError:
        found = True
    print(name, said, found)
"""

MODES = (0o644, 0o666, 0o600, 0o622, 0o4666, 0o2666, 0o2676, 0o1666)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_it_is_what_the_kernel_decides_for_files_of_others():
    root = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        root.chmod(0o777)
        for mode in MODES:
            path = root / f"{mode:04o}"
            path.touch()
            path.chmod(mode)
        (root / "link").symlink_to("0666")
        command = [sys.executable, "-c", _AS_NOBODY, str(root)]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        rows = [line.split() for line in result.stdout.splitlines()]
        assert len(rows) == len(MODES) + 2, result.stderr
        assert [(name, said) for name, said, _ in rows] == [(name, found) for name, _, found in rows]
        if Path("/proc/sys/fs/protected_hardlinks").read_text().strip() == "1":
            assert {said for _, said, _ in rows} == {"True", "False"}
    finally:
        shutil.rmtree(root)


def test_own_files_and_those_that_are_gone_may_be_linked(tmp_path: Path):
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(stat.S_ISUID | 0o200)
    paths = [str(tmp_path / name) for name in ("a", "gone", "a/below")]
    assert denied_links(paths) == []
