"""Take a job from state to state, beside other processes that do the same."""

from __future__ import annotations

from collections.abc import Callable

from ray_committer.job_files.job_state import Seen, StateChangedError


def follow_job(current: Seen, step: Callable[[Seen], Seen]) -> tuple[Seen, bool]:
    """Repeat `step`, which takes the job from the state that it is given to the next one, until it
    returns the state that it was given. Returns that state, and whether the job is still there. Only
    here is it seen that another process has changed the state under a step: the next step then begins at
    the state that is there. If the job is gone, the last state before that is returned."""
    while True:
        try:
            after = step(current)
        except StateChangedError as e:
            # Gone: another process has ended the job. What the caller saw last says how.
            if e.now is None:
                return current, False
            current = e.now
        else:
            # By identity: the step has looked and found nothing left to do.
            if after is current:
                return current, True
            current = after
