"""A program that commits a job, and stops before requests to the store until it is resumed.

``python -m tests.integration.readers.committer DIRECTORY JOB [REQUEST]`` stops before this request, or
before each: it prints a line, and goes on when it reads one.
"""

from __future__ import annotations

import sys

from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import StoreCall, WrappedStore, run_commit


def main() -> None:
    table, job_id, *request = sys.argv[1:]

    def stop(call: StoreCall) -> None:
        if request in ([], [str(call.number)]):
            print(call.operation, flush=True)
            sys.stdin.readline()

    store = WrappedStore(LocalStore(StoreSpec("file")), before=stop)
    run_commit(store, new_job_attempt(table, job_id, 0))


if __name__ == "__main__":
    main()
