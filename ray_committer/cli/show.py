"""``ray-committer show``: show a file of a job, or which job has written a data file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import click
from rich.text import Text

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.html_file import html_option, write_html
from ray_committer.cli.print import count_text, print_result, size_text
from ray_committer.errors import JobNotFoundError, ManifestError, mark
from ray_committer.jobs.documents import Document, read_document
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import TaskManifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, SUCCESS, TEMPORARY
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.success import MAX_FILENAMES, SuccessData
from ray_committer.report.old_job import report_of_success
from ray_committer.table_jobs.table_changes import WrittenFile, who_wrote

_SHOWN_FILES = 10
_EMPTY = (
    "  empty: a classic committer wrote it",
    "  so it does not show which job has ended, when it ended, or what it wrote",
)


@click.command(cls=Command)
@click.argument("path", metavar="PATH")
@html_option
@shared.at_store("retry_seconds")
def show(path: str, html_file: str | None, output: str, how: shared.How) -> None:
    """Show the _SUCCESS, summary report, task manifest or commit record at PATH, or its writer.

    If PATH is a directory, the command shows its _SUCCESS. It also shows the files of Hadoop's manifest
    committer, which have the same formats. JSON output is the path, the kind, and the file's own JSON.
    With --html the command writes the report of the job, as far as the file contains it.

    If PATH is a data file of a table with a log, the command shows which job has added it, also if the
    file was removed later.
    """
    document = _found(path, how)
    if isinstance(document, WrittenFile):
        print_result(output, document, _lines_of_writer(document))
        return
    value = {"path": document.path, "kind": document.kind, "content": document.content()}
    print_result(output, value, _lines(document))
    if html_file is not None:
        if document.success is None:
            raise ManifestError(
                f"{mark(document.path)}: contains no result of a commit, so there is no report"
            )
        write_html(report_of_success(document.success, document.path), html_file)


def _found(path: str, how: shared.How) -> Document | WrittenFile:
    """What the log of a table says of a data file, or a job's own file."""
    unknown: JobNotFoundError | None = None
    if _can_be_data(path):
        try:
            return who_wrote(path, **how)
        except JobNotFoundError as e:
            unknown = e
    try:
        return read_document(path, **how)
    except ManifestError as e:
        raise unknown or e from None


def _can_be_data(path: str) -> bool:
    """Whether a file can be data by its place and name, as ``part-0.json`` can."""
    name = path.rstrip("/").rpartition("/")[2]
    is_own = name == SUCCESS or name.startswith("summary-") or name.endswith(MANIFEST_SUFFIX)
    return not is_own and f"/{TEMPORARY}/" not in path


def _lines_of_writer(file: WrittenFile) -> Iterator[str]:
    job = file.job_id if not file.job_attempt else f"{file.job_id}, attempt {file.job_attempt}"
    yield (
        f"{file.path}: written by job {job} ({file.mode}), version {file.version} of the table at "
        f"{file.table}"
    )
    if file.run_id is not None:
        yield f"Its run id is {file.run_id}."
    if file.removed is not None:
        yield f"It was removed at version {file.removed}."


def _lines(document: Document) -> Iterator[Text | str]:
    if document.manifest is not None:
        return _manifest_lines(document.path, document.manifest)
    if document.record is not None:
        return _record_lines(document.path, document.record)
    if document.success is not None:
        return _success_lines(document.path, document.success)
    return iter((document.path, *_EMPTY))


def _success_lines(path: str, success: SuccessData) -> Iterator[Text | str]:
    yield path
    ending, style = ("succeeded", "green") if success.success else ("FAILED", "bold red")
    yield Text.assemble(f"  job {success.job_id} ", (ending, style))
    yield f"  by {_short(success.committer)} on {success.hostname or 'an unknown host'}, {success.date}"
    statistics = success.iostatistics or IOStatistics()
    files = statistics.counters.get(names.FILES_COMMITTED)
    size = statistics.counters.get(names.BYTES_COMMITTED)
    yield f"  {count_text(files, 'file')}, {size_text(size)}"
    for key, text in sorted((success.diagnostics or {}).items()):
        first, *more = text.strip().splitlines() or [""]
        yield f"  {key}: {first}"
        if more:
            yield f"    and {count_text(len(more), 'more line')}; --output json has all"
    yield from _stages(statistics)
    yield from _some([Text(name) for name in success.filenames or ()], files)


def _stages(statistics: IOStatistics) -> Iterator[str]:
    timed = {
        name.removesuffix(".mean").removeprefix("job_stage_"): mean.sum / 1000
        for name, mean in statistics.meanstatistics.items()
        if name.startswith("job_stage_") and ".failures" not in name and mean.samples
    }
    for name, seconds in sorted(timed.items()):
        yield f"    {name:<26}{seconds:>9.3f} s"


def _manifest_lines(path: str, manifest: TaskManifest) -> Iterator[Text | str]:
    yield path
    yield f"  task {manifest.task_id}, attempt {manifest.task_attempt_id}"
    yield f"  of job {manifest.job_id}, attempt {manifest.job_attempt_number}"
    size = sum(file.z for file in manifest.files)
    files, directories = len(manifest.files), len(manifest.directories or ())
    directory = "directory" if directories == 1 else "directories"
    yield f"  {count_text(files, 'file')}, {size_text(size)}, {directories:,} {directory}"
    yield from _some([Text(f"{file.d} ({size_text(file.z)})") for file in manifest.files], files)


def _record_lines(path: str, record: CommitRecord) -> Iterator[Text | str]:
    yield path
    yield f"  the commit of job {record.job_id}, attempt {record.job_attempt}"
    began = datetime.fromtimestamp(record.created_milliseconds / 1000, UTC)
    yield f"  begun {began:%Y-%m-%d %H:%M:%S} UTC, mode {record.mode}"
    tasks = count_text(record.tasks, "task")
    if record.run_id is not None:
        yield f"  run id {record.run_id}"
    yield f"  {tasks}, {count_text(record.files, 'file')}, {size_text(record.bytes)}"
    if record.replaced or record.overwritten:
        yield f"  replaces {count_text(len(record.replaced) + len(record.overwritten), 'file')}"


def _some(items: Sequence[Text], files: int | None) -> Iterator[Text]:
    """The first of many items, and their number; a ``_SUCCESS`` itself names only some."""
    for item in items[:_SHOWN_FILES]:
        yield Text.assemble("    ", item)
    total = max(files or 0, len(items))
    if total > _SHOWN_FILES or total > len(items):
        shown = min(len(items), _SHOWN_FILES)
        yield Text(f"    the first {shown} of {total:,}; --output json has {_named(len(items), total)}")


def _named(named: int, total: int) -> str:
    return f"the {named} that it names" if named < total or named == MAX_FILENAMES else "all"


def _short(committer: str | None) -> str:
    """The committer without its package: Hadoop writes the name of a class."""
    return (committer or "an unknown committer").rpartition(".")[2]
