"""What a person sees of a commit in Ray's dashboard and in its logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.ray.jobs import write_files

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray"), pytest.mark.timeout(180)]

COMMIT = """
import json, sys, time, urllib.request
import ray
from ray.util.state import list_actors, list_tasks
import ray_committer

ray.init(address="local", num_cpus=2, include_dashboard=True, log_to_driver=True,
         logging_config=ray.LoggingConfig(log_level="INFO"))
with ray_committer.commit_pool(ray_committer.CommitOptions(workers=2)) as pool:
    report = ray_committer.commit_job(sys.argv[1], executor=pool)
    deadline = time.monotonic() + 90
    tasks, said = [], ""
    address = ray.get_runtime_context().gcs_address  # others may run on this machine
    while not any(name.startswith("rename_shard") for name in tasks):
        assert time.monotonic() < deadline, (tasks, said)
        time.sleep(0.5)
        try:
            tasks = [task.name for task in list_tasks(address, limit=10_000)]
            labels = [actor.repr_name for actor in list_actors(address, detail=True)]
        except Exception as e:  # the dashboard is there a while after Ray
            said = repr(e)
    job = ray.get_runtime_context().get_job_id()
    page = urllib.request.urlopen(report.dashboard).read().decode()
print("FOUND", json.dumps({"tasks": tasks, "labels": labels, "dashboard": report.dashboard,
                           "job": job, "page": page}))
"""


@pytest.mark.wide
def test_tasks_and_workers_have_names_and_each_shard_a_line_in_the_logs(dest: Path, tmp_path: Path):
    write_files(dest, tasks=4, files=200)
    script = tmp_path / "commit.py"
    script.write_text(COMMIT)
    done = subprocess.run(
        [sys.executable, str(script), str(dest)],
        env={**os.environ, "RAY_DEDUP_LOGS": "0"},  # or lines that are much alike are shown as one
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = (line for line in done.stdout.splitlines() if line.startswith("FOUND "))
    shown = json.loads(found.removeprefix("FOUND "))
    about = f"job_1 at {dest}"
    assert {f"load_batch of {about}", f"rename_shard of {about}"} <= set(shown["tasks"])
    assert not [name for name in shown["tasks"] if ".limit" in name or ".directories" in name]
    assert {"the host of commits", "worker 0 of a commit pool", "worker 1 of a commit pool"} <= set(
        shown["labels"]
    )
    assert shown["dashboard"].endswith(f"/#/jobs/{shown['job']}")
    assert "Ray Dashboard" in shown["page"]
    assert "rename_shard: shard 0, " in done.stderr + done.stdout
