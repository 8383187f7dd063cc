"""Set up a job whose id was drawn for it, although a test knows the id."""

from __future__ import annotations

import logging

from ray_committer import CommitOptions
from ray_committer.jobs.commit import set_up


def set_up_with_id(url: str, job_id: str, options: CommitOptions | None = None) -> None:
    """As `ray_committer.setup_job` without an id, which then draws this one."""
    set_up(
        url,
        job_id,
        is_new_id=True,
        options=options or CommitOptions(),
        storage_options=None,
        on_warning=logging.warning,
        on_stamp=lambda _: None,
    )
