"""How long does a person wait for what starts anew each time: the import, ``--help``, a small commit?

Each in a process of its own, from its start to its end, with the byte code that an installed package
has. The commit is of one task with two local files, by the command line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness


def seconds_of(*arguments: str) -> float:
    """Seconds of one run of this Python."""
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=kept, check=True, capture_output=True)
    return time.perf_counter() - begun


def measure(root: Path) -> dict[str, float]:
    harness.write_job(root, tasks=1, files=2, directories=1)
    command = ("-m", "ray_committer.cli")
    return {
        "nothing": seconds_of("-c", ""),
        "import": seconds_of("-c", "import ray_committer"),
        "help": seconds_of(*command, "--help"),
        "commit": seconds_of(*command, "commit", str(root), "--expect-tasks", "1"),
    }


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="start-time-")) / "table"
    found = harness.rounds(lambda: measure(root), number=11)
    median = found["median"]
    harness.save(
        "start_time",
        __doc__,
        {"seconds": found},
        {
            "import ray_committer, seconds": (median["import"], "<=", 0.040),
            "ray-committer --help, seconds": (median["help"], "<=", 0.150),
            "a commit of two files, seconds": (median["commit"], "<=", 0.250),
        },
    )


if __name__ == "__main__":
    main()
