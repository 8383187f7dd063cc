"""``ray-committer show``: what a ``_SUCCESS`` file, summary report or task manifest says."""

from __future__ import annotations

import os

import click
import msgspec

from ray_committer.cli import options as shared
from ray_committer.cli.html_file import html_option, write_html
from ray_committer.errors import ManifestError
from ray_committer.protocol.manifest import TaskManifest, decode_manifest
from ray_committer.protocol.success import SuccessData, decode_success
from ray_committer.report.old_job import report_of_success
from ray_committer.stores.registry import open_store, resolve_destination

_SHOWN_FILES = 10


@click.command()
@click.argument("path", metavar="PATH")
@html_option
@shared.storage_option
@shared.output_option
def show(path: str, html_file: str | None, storage: tuple[str, ...], output: str) -> None:
    """Show the _SUCCESS file, report or task manifest at PATH; of a directory, its _SUCCESS.

    With --html the report of the job is written, as far as such a file tells it.
    """
    spec, location = resolve_destination(path, shared.storage_options(storage))
    store = open_store(spec)
    status = store.get_status(location)
    if status is not None and status.is_directory:
        location = os.path.join(location, "_SUCCESS")
    try:
        data = store.read(location)
    except FileNotFoundError as e:
        raise ManifestError(f"{location}: does not exist; the job may not be committed") from e
    if output == "json" and data.strip():
        click.echo(msgspec.json.format(data, indent=2).decode())
    elif location.endswith("-manifest.json"):
        click.echo(_manifest_text(decode_manifest(data, location)))
    else:
        click.echo(_success_text(decode_success(data, location), location))
    if html_file is not None:
        _write_page(data, location, html_file)


def _write_page(data: bytes, location: str, html_file: str) -> None:
    success = None if location.endswith("-manifest.json") else decode_success(data, location)
    if success is None:
        raise ManifestError(f"{location}: tells nothing of a commit that a report could show")
    write_html(report_of_success(success, location), html_file)


def _success_text(success: SuccessData | None, path: str) -> str:
    if success is None:
        return f"{path}: empty, so it was written by Hadoop's classic committer, which tells no more"
    counters = success.iostatistics.counters if success.iostatistics else {}
    lines = [
        f"{path}: job {success.job_id} {'succeeded' if success.success else 'FAILED'}",
        f"  committer {success.committer} on {success.hostname}, {success.date}",
        f"  files {counters.get('committer_files_committed', 0):,}, "
        f"bytes {counters.get('committer_bytes_committed', 0):,}",
    ]
    lines.extend(f"  {key}: {value}" for key, value in sorted((success.diagnostics or {}).items()))
    lines.extend(f"    {name}" for name in (success.filenames or [])[:_SHOWN_FILES])
    return "\n".join(lines)


def _manifest_text(manifest: TaskManifest) -> str:
    lines = [
        f"task {manifest.task_id} attempt {manifest.task_attempt_id} of job {manifest.job_id}",
        f"  {len(manifest.files):,} files, {sum(file.z for file in manifest.files):,} bytes, "
        f"{len(manifest.directories or ()):,} directories",
    ]
    lines.extend(f"    {file.d} ({file.z:,} bytes)" for file in manifest.files[:_SHOWN_FILES])
    return "\n".join(lines)
