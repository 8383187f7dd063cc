"""Where a rename takes a hard link, files that may not be linked are found before the record."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ray_committer.errors import StoreRefusedError
from ray_committer.job_files.job_state import adopt_state
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink
from ray_committer.testing import run_commit, visible_files, write_job

_AS_NOBODY = """
import os, sys
from ray_committer.errors import PreflightError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.job_files.job_state import adopt_state
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink, rename_without_replacing
from ray_committer.testing import run_commit
job = new_job_attempt(sys.argv[1], "job", 0)
store = LocalStore(StoreSpec("file"), rename=globals()[sys.argv[2]])
os.setgid(65534)
os.setuid(65534)
try:
    run_commit(store, job)
    print("committed")
except PreflightError as e:
    print(e)
    print(adopt_state(store, job).phase)
"""

FILES = {0: {"p=1/a": b"1", "p=2/b": b"2"}, 1: {"p=1/c": b"3"}, 2: {"p=1/d": b"4"}}
IS_PROTECTED = Path("/proc/sys/fs/protected_hardlinks").read_text().strip() != "0"
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")


def commit_as_nobody(rename: str, writable: str = "none") -> tuple[list[str], dict[str, bytes], str]:
    """What a commit by another user says of root's files, and what is at the destination."""
    root = tempfile.mkdtemp(dir="/tmp")
    try:
        store, job = LocalStore(StoreSpec("file")), new_job_attempt(root, "job", 0)
        write_job(store, job, FILES)
        for path in [Path(root), *Path(root).rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666 if path.name == writable else 0o644)
        command = [sys.executable, "-c", _AS_NOBODY, root, rename]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert not result.stderr
        lines = [line.replace(job.tasks, "T") for line in result.stdout.splitlines()]
        return lines, visible_files(store, root), root
    finally:
        shutil.rmtree(root)


@needs_root
@pytest.mark.skipif(not IS_PROTECTED, reason="this kernel does not protect links")
def test_files_of_others_are_named_at_once_and_nothing_is_changed():
    (text, phase), visible, _ = commit_as_nobody("link_and_unlink", writable="c")
    named = [f"T/attempt_job_m_00000{task}_0/{name}" for task, name in ((0, "p=1/a"), (0, "p=2/b"))]
    named.append("T/attempt_job_m_000002_0/p=1/d")
    assert text.startswith(" | ".join(named) + ": 3 files of other users cannot be linked by this user")
    assert phase == "open"
    assert visible == {}


@needs_root
def test_where_a_rename_needs_no_link_files_of_others_are_moved():
    lines, visible, _ = commit_as_nobody("rename_without_replacing")
    assert lines == ["committed"]
    assert visible == {name: data for files in FILES.values() for name, data in files.items()}


def test_a_file_system_without_links_is_refused_before_the_record(monkeypatch, tmp_path: Path):
    store = LocalStore(StoreSpec("file"), rename=link_and_unlink)
    job = new_job_attempt(str(tmp_path), "job", 0)
    write_job(store, job, FILES)

    def no_links(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreRefusedError, match="can neither rename without replacing nor link files"):
        run_commit(store, job)
    assert adopt_state(store, job).phase is Phase.OPEN
    assert visible_files(store, str(tmp_path)) == {}
    monkeypatch.undo()
    run_commit(store, job)
    assert len(visible_files(store, str(tmp_path))) == 4
