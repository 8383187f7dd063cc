"""Spoil a task's manifest, and see that the commit refuses it before it changes anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import RayCommitterError
from ray_committer.protocol.paths import JobAttempt
from ray_committer.testing import StoreCall, WrappedStore, run_commit

CHANGING = {
    "write",
    "mkdirs",
    "rename",
    "replace",
    "advance",
    "move_directory",
    "delete_file",
    "delete_version",
    "delete_directory",
    "remove_empty_directory",
}


def refused(store: Any, job: JobAttempt, options: CommitOptions | None = None) -> RayCommitterError:
    """Commit, which must fail without a single call that changes the store."""
    calls: list[StoreCall] = []
    with pytest.raises(RayCommitterError) as caught:
        run_commit(WrappedStore(store, before=calls.append), job, options)
    assert [call for call in calls if call.operation in CHANGING] == []
    return caught.value


def edit(job: JobAttempt, task: int, change: Callable[[dict[str, Any]], None]) -> Path:
    path = Path(job.manifest(f"task_1_m_{task:06d}"))
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))
    return path


def set_dest(value: str) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["files"][0].update(d=value)
