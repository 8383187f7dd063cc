"""The JSON documents of the commands: which fields a program can rely on, and of which types.

A field more breaks no program; a field that is missing, renamed or of another type does.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct


class Document(Struct, kw_only=True):
    started_at: datetime
    ended_at: datetime
    exit_code: int


class Failure(Document):
    error_id: str
    error_class: str
    error_message: str
    error_advice: str


class Commit(Document):
    destination: str
    job_id: str
    job_attempt: int
    outcome: str
    run_id: str | None
    committed_by: str | None
    resumed: bool
    manifests: int
    files: int
    bytes: int
    directories: int
    whole: int
    whole_files: int
    by_file: dict[str, int]
    moved: int
    replaced: int
    changed: list[str]
    requests: int
    seconds: float
    stage_seconds: dict[str, float]
    notices: list[str]
    error: str | None
    command: str


class Rename(Struct):
    source: str
    destination: str
    size: int


class Plan(Document):
    destination: str
    job_id: str
    job_attempt: int
    state: str
    manifests: int
    files: int
    bytes: int
    directories: int
    whole: int
    whole_files: int
    by_file: dict[str, int]
    replaced: int
    moved: int
    first_directories: list[str]
    first_renames: list[Rename]
    requests: int
    seconds: float | None


class Abort(Document):
    destination: str
    job_id: str
    job_attempt: int
    directory: str
    files: int | None
    bytes: int | None
    uploads: int | None
    moved: int


class PastCommit(Struct):
    source: str
    at_milliseconds: int
    job_id: str | None
    job_attempt: int | None
    succeeded: bool | None
    files: int | None
    bytes: int | None
    seconds: float | None
    committer: str | None
    hostname: str | None
    run_id: str | None
    stage: str | None
    error: str | None
    problem: str | None


class Job(Struct):
    job_id: str
    job_attempt: int
    directory: str
    state: str
    manifests: int | None
    files: int | None
    bytes: int | None
    is_estimate: bool
    left: int | None
    age_seconds: float | None
    committer: str | None
    is_alive: bool
    moved: int | None
    per_second: float | None
    seconds_left: float | None
    problem: str | None
    command: str | None
    undo_command: str | None
    run_id: str | None


class Status(Document):
    destination: str
    holds: str
    last_commit: PastCommit | None
    table_version: int | None
    jobs: list[Job]
    leftovers: list[dict[str, Any]]
    problem: str | None


class History(Document):
    commits: list[PastCommit]


class Show(Document):
    path: str
    kind: str
    content: dict[str, Any] | None


class Validate(Document):
    destination: str
    job_id: str
    evidence: str
    compared: int
    files: int


class VacuumedJob(Struct):
    job_id: str
    job_attempt: int
    directory: str
    files: int | None
    bytes: int | None
    removed: bool
    reason: str | None
    command: str | None


class Vacuum(Document):
    jobs: list[VacuumedJob]
    uploads: list[dict[str, Any]]


class Entry(Struct):
    version: int
    job_id: str
    job_attempt: int
    mode: str | None
    partitions: list[str]
    files: int
    bytes: int
    at_milliseconds: int
    run_id: str | None
    undoes: int | None


class TableInit(Document):
    version: int
    kind: str
    job_id: str
    files: int
    bytes: int


class TableLog(Document):
    entries: list[Entry]


class TableScan(Document):
    destination: str
    version: int
    compared: int
    foreign: list[str]
    orphans: list[str]
    orphan_commands: list[str]
    missing: list[str]
    changed: list[str]
    agrees: bool


class File(Struct):
    path: str
    size: int


class TableFiles(Document):
    version: int
    files: list[File]


class Change(Struct):
    version: int
    job_id: str
    mode: str
    added: list[File]
    removed: list[File]


class TableChanges(Document):
    changes: list[Change]


class ShowData(Document):
    table: str
    path: str
    job_id: str
    version: int
    removed: int | None


class Estimate(Document):
    seconds: float
    waits_for: str
    requests: dict[str, int]
    dollars: float | None


class Error(Struct):
    id: str
    meaning: str
    data: str
    next: str


class Explain(Document):
    errors: list[Error]


class ExplainOne(Document):
    id: str
    meaning: str
    data: str
    next: str


class Check(Struct):
    name: str
    verdict: str
    measured: str
    advice: str


class Doctor(Document):
    destination: str
    lines: list[Check]
    failed: bool


class SparkConf(Document):
    settings: dict[str, str]
