"""Run a test many times beside other work: ``python -m tests.flaky N ARGUMENT ...``, as for pytest.

The work keeps each core busy, in bursts, and forces files to disk: what a busy machine does to a test
that waits for a time and not for an event. Each run has a seed of its own, for Hypothesis and for the
hashes of Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from random import Random


def main() -> None:
    """Run, report each failure with its seed, and exit with 1 if there was one."""
    times, arguments = int(sys.argv[1]), sys.argv[2:]
    if not arguments:
        sys.exit("which test? T=tests/...")
    failed = []
    with load():
        for seed in range(1, times + 1):
            started = time.monotonic()
            result = run(seed, arguments)
            last = result.stdout.strip().rpartition("\n")[2]
            print(f"seed {seed}: {last} ({time.monotonic() - started:.0f} s)", flush=True)
            if result.returncode:
                failed.append(seed)
                print(result.stdout, result.stderr, sep="\n", flush=True)
    print(f"{len(failed)} of {times} runs failed" + (f", of the seeds {failed}" if failed else ""))
    sys.exit(bool(failed))


def run(seed: int, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run pytest once, with the seed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--hypothesis-seed={seed}",
    ]
    return subprocess.run(
        [*command, *arguments],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def load() -> Iterator[None]:
    """Keep as many processes busy as there are cores while the block runs."""
    others = [Process(target=work, args=(number,), daemon=True) for number in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.join()


def work(seed: int) -> None:
    """Compute for up to a second, write a megabyte through to disk, rest a little; for ever."""
    dice = Random(seed)
    with tempfile.TemporaryFile() as file:
        while True:
            until = time.monotonic() + dice.random()
            while time.monotonic() < until:
                sum(range(10_000))
            file.seek(0)
            file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            time.sleep(dice.random() / 10)


if __name__ == "__main__":
    main()
