"""What a person sees of a commit while it runs, on standard error."""

from __future__ import annotations

from contextlib import suppress

import click

from ray_committer.events import Event, FilesRenamed, Notice, StageStarted


def tell(line: str) -> None:
    """Write a line; a reader that is gone, as a Spark driver that died, does not end the commit."""
    with suppress(BrokenPipeError):
        click.echo(line, err=True)


class Progress:
    """Stages and, each tenth of the way, files done."""

    def __init__(self) -> None:
        self._tenths = 0

    def event(self, event: Event) -> None:
        if isinstance(event, StageStarted):
            tell(f"  {event.stage.removeprefix('job_stage_')}")
        elif isinstance(event, Notice):
            tell(f"  note: {event.text}")
        elif isinstance(event, FilesRenamed) and event.total:
            tenths = 10 * event.done // event.total
            if tenths > self._tenths:
                self._tenths = tenths
                tell(f"    {event.done:,} of {event.total:,} files")
