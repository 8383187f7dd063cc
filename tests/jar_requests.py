"""What the jar asks for when a Spark job is set up, committed or aborted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ray_committer.spark.driver import JAR_PROTOCOL_VERSION


def request(dest: Path, **more: Any) -> str:
    fields: dict[str, Any] = {
        "version": JAR_PROTOCOL_VERSION,
        "jobId": "job_1",
        "jobAttempt": 0,
        "dest": dest.as_uri(),
        "commit": "ray",
        "dynamicPartitionOverwrite": False,
    }
    return json.dumps(fields | more)


def tasks_of(dest: Path) -> list[dict[str, Any]]:
    return [
        {
            "manifest": path.name,
            "size": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "taskAttemptId": f"attempt_1_m_{number:06d}_0",
            "files": len(json.loads(path.read_bytes())["files"]),
        }
        for number, path in enumerate(sorted((dest / "_temporary/job_1/00/manifests").iterdir()))
    ]
