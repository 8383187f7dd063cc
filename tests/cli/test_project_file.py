"""``ray-committer.toml``: which section holds, what wins over it, and what is refused in it."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import CommitOptions
from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.project_file import find_file, read_sections, section_for
from ray_committer.errors import SettingsError
from tests.cli.commands import run
from tests.docs.blocks import all_blocks

TWO = """
[[destination]]
prefix = "gs://bucket/warehouse"
storage_options = { project = "p", requester_pays = true, timeout = 5, token = "anon" }
executor = "threads"
max_requests_per_second = 500
retry_seconds = "5m"
cleanup = false
exports = ["delta", "iceberg"]

[[destination]]
prefix = "gs://bucket/warehouse/small"
max_requests_per_second = "none"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, below which no home is."""
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def write(project: Path, text: str) -> Path:
    file = project / "ray-committer.toml"
    file.write_text(text)
    return file


def prefix_for(file: Path, destination: str) -> str | None:
    found = section_for(read_sections(file), destination, {})
    return found.prefix if found else None


@pytest.mark.parametrize(
    ("destination", "prefix"),
    [
        ("gs://bucket/warehouse", "gs://bucket/warehouse"),
        ("gs://bucket/warehouse/t", "gs://bucket/warehouse"),
        ("gcs://bucket/warehouse/t/", "gs://bucket/warehouse"),
        ("gs://bucket/warehouse/small/t", "gs://bucket/warehouse/small"),
        ("gs://bucket/warehouse/smaller", "gs://bucket/warehouse"),
        ("gs://bucket/warehouse2", None),
        ("gs://bucket", None),
        ("gs://other/warehouse", None),
        ("s3://bucket/warehouse", None),
        ("/bucket/warehouse", None),
        ("postgresql://host/db", None),
        ("oss://bucket/warehouse", None),
    ],
)
def test_the_longest_prefix_of_whole_names_holds(project: Path, destination: str, prefix: str | None):
    assert prefix_for(write(project, TWO), destination) == prefix


@pytest.mark.parametrize(
    ("prefix", "destination"),
    [
        ("s3://bucket", "s3a://bucket/t"),
        ("/", "/shared/t"),
        ("/shared/", "file:/shared/t"),
        ("abfss://c@a.dfs.core.windows.net/", "abfs://c@a.dfs.core.windows.net/t"),
        ("hdfs://nn:8020/w", "hdfs://nn/w/t"),
    ],
)
def test_one_place_has_one_name_however_it_is_written(project: Path, prefix: str, destination: str):
    file = write(project, f'[[destination]]\nprefix = "{prefix}"\n')
    assert prefix_for(file, destination) == prefix


def test_a_relative_destination_is_below_the_working_directory(project: Path):
    file = write(project, f'[[destination]]\nprefix = "{project}"\n')
    assert prefix_for(file, "table") == str(project)


def test_values_are_read_as_elsewhere(project: Path):
    section, _ = read_sections(write(project, TWO))
    assert section.settings == {
        "max_requests_per_second": 500.0,
        "retry_seconds": 300.0,
        "cleanup": False,
        "exports": ("delta", "iceberg"),
    }
    options = {"project": "p", "requester_pays": "true", "timeout": "5", "token": "anon"}
    assert section.storage_options == options
    assert section.executor == "threads"


def test_the_file_of_the_page_is_one(project: Path):
    text = all_blocks()["docs/command_line.md: The project file"].text
    file = write(project, text)
    assert [one.prefix for one in read_sections(file)] == ["gs://bucket/warehouse", "/shared"]
    assert prefix_for(file, "/shared/t") == "/shared"


ONE = '[[destination]]\nprefix = "/t"\n'
BAD = [
    ("x = 1", "x: is not a key of this file; it has only [[destination]]"),
    ("destination = 1", "destination: must be written as [[destination]]"),
    ("[destination]\nprefix = '/t'", "destination: must be written as [[destination]]"),
    ("[[destination]]", "destination 1: prefix: must be a URL or an absolute path"),
    ("[[destination]]\nprefix = 't'", "destination 1: prefix: must be a URL or an absolute path"),
    ("[[destination]]\nprefix = 3", "destination 1: prefix: must be a URL or an absolute path"),
    (
        ONE + "max_request_per_second = 1",
        "destination 1: max_request_per_second: is not a key of a destination; "
        "did you mean max_requests_per_second",
    ),
    (ONE + "job_id = 'x'", "destination 1: job_id: is not a key of a destination"),
    (ONE + "mode = 'append'", "destination 1: mode: is not a key of a destination"),
    (ONE + "threads = 0", "destination 1: threads: must be at least 1"),
    (ONE + "threads = true", "destination 1: threads: must be a whole number"),
    (ONE + "threads = 1.5", "destination 1: threads: must be a whole number"),
    (ONE + "threads = [1]", "destination 1: threads: must be a whole number"),
    (ONE + "cleanup = 1", "destination 1: cleanup: must be true or false"),
    (ONE + "retry_seconds = '5 years'", "destination 1: retry_seconds: must be a time such as"),
    (ONE + "retry_seconds = 2026-01-01", "destination 1: retry_seconds: must be a time such as"),
    (ONE + "summary_directory = 5", "destination 1: summary_directory: must be a URL, or a path"),
    (ONE + "executor = 'spark'", "destination 1: executor: must be one of auto, threads, inline, ray"),
    (ONE + "executor = ['ray']", "destination 1: executor: must be one of auto, threads, inline, ray"),
    (ONE + "storage_options = 'a=b'", "destination 1: storage_options: must be a table such as"),
    (ONE + "storage_options = { a = [1] }", "destination 1: storage_options.a: must be a text"),
    (ONE + "storage_options = { secret = 'x' }", "storage_options.secret: is a secret"),
    (ONE + "storage_options = { token = 'ya29.x' }", "storage_options.token: is a secret"),
    (ONE + ONE, "destination 2: prefix: is that of"),
    (ONE + ONE.replace("/t", "/t/"), "destination 2: prefix: is that of"),
    (ONE.replace("/t", "oss://b/t"), "destination 1: prefix: oss://b/t/: cannot be committed to"),
    ("a = [", "is not TOML"),
]


@pytest.mark.parametrize(("text", "why"), BAD)
def test_what_is_wrong_is_one_error_with_file_and_key_and_nothing_is_done(
    project: Path, write_job, dest: Path, text: str, why: str
):
    dest = project / "t"
    file = write(project, text.replace('"/t', f'"{dest}').replace("'/t", f"'{dest}"))
    ray_committer.setup_job(str(dest), "job_1")
    result = run("abort", str(dest))
    what, advice, *_ = result.stderr.splitlines()
    assert result.exit_code == 2
    assert what.startswith(f"ray-committer: {file}: ")
    assert why in what
    assert advice.startswith("  -> ")
    assert (dest / "_temporary/job_1").exists()
    assert "s3cret" not in result.output


def test_no_secret_is_repeated(project: Path):
    write(project, ONE.replace("/t", "/") + "storage_options = { key = 's3cret' }")
    result = run("status", "/t")
    assert "storage_options.key: is a secret" in result.stderr
    assert "RAY_COMMITTER_STORAGE_OPTIONS" in result.stderr
    assert "s3cret" not in result.output


def test_the_file_is_in_the_working_directory_or_above_up_to_home(tmp_path: Path):
    inner = tmp_path / "home/a/b"
    inner.mkdir(parents=True)
    above, home = tmp_path / "ray-committer.toml", tmp_path / "home"
    above.touch()
    assert find_file(inner, tmp_path / "elsewhere") == above
    assert find_file(inner, home) is None
    (home / "ray-committer.toml").touch()
    assert find_file(inner, home) == home / "ray-committer.toml"
    (home / "a/ray-committer.toml").touch()
    assert find_file(inner, home) == home / "a/ray-committer.toml"


def given(*arguments: str, **environment: str) -> tuple[CommitOptions, dict[str, str], str]:
    """The options, the storage options and the executor of a command."""
    found: list[tuple[CommitOptions, dict[str, str], str]] = []

    @click.command(cls=Command)
    @click.argument("destination")
    @shared.executor_option
    @shared.settings(shared.EVERY_SETTING)
    @shared.storage_option
    def probe(executor: str, storage_options: tuple[tuple[str, str], ...], **_more: object) -> None:
        found.append((shared.commit_options(), dict(storage_options), executor))

    result = CliRunner(env=environment).invoke(probe, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(project: Path):
    write(project, TWO.replace("retry_seconds", "threads = 3\nworkers = 4\nretry_seconds"))
    environment = {"RAY_COMMITTER_THREADS": "5", "RAY_COMMITTER_WORKERS": "6"}
    options, _, executor = given("gs://bucket/warehouse/t", "--threads", "7", **environment)
    assert (options.threads, options.workers, options.cleanup) == (7, 6, False)
    assert (options.max_requests_per_second, executor) == (500.0, "threads")
    assert given("gs://elsewhere/t")[0] == CommitOptions()
    assert given("gs://bucket/warehouse/t", "--executor", "ray")[2] == "ray"
    variable = {"RAY_COMMITTER_EXECUTOR": "inline"}
    assert given("gs://bucket/warehouse/t", **variable)[2] == "inline"
    assert given("gs://bucket/warehouse/t", "--cleanup")[0].cleanup is True


def test_storage_options_are_joined_and_each_wins_alone(project: Path):
    write(project, TWO)
    _, options, _ = given("gs://bucket/warehouse/t", "-o", "project=q", "-o", "access=read_only")
    assert options == {
        "project": "q",
        "requester_pays": "true",
        "timeout": "5",
        "token": "anon",
        "access": "read_only",
    }
    variable = {"RAY_COMMITTER_STORAGE_OPTIONS": "token=secret"}
    assert given("gs://bucket/warehouse/t", **variable)[1]["token"] == "secret"


def test_a_file_that_is_named_wins_over_one_that_is_found(project: Path, tmp_path: Path):
    write(project, "not TOML")
    named = tmp_path / "other.toml"
    named.write_text(TWO)
    assert given("gs://bucket/warehouse/t", "--config", str(named))[2] == "threads"
    variable = {"RAY_COMMITTER_CONFIG": str(named)}
    assert given("gs://bucket/warehouse/t", **variable)[2] == "threads"
    assert given("gs://bucket/warehouse/t", "--config", "/dev/null", **variable)[2] == "auto"


def test_a_file_that_is_named_and_missing_is_an_error(project: Path):
    result = run("status", "/t", "--config", "none.toml")
    assert result.exit_code == 2
    assert "none.toml: No such file or directory" in result.stderr


def test_a_file_of_another_user_is_only_used_if_it_is_named(project: Path, dest: Path):
    dest.mkdir()
    file = write(project, TWO)
    file.chmod(0o666)
    result = run("status", str(dest))
    assert result.exit_code == 2
    assert f"{file}: belongs to another user, or all users can write it" in result.stderr
    assert run("status", str(dest), "--config", str(file)).exit_code == 0
    file.chmod(0o644)
    if os.getuid() == 0:
        os.chown(file, 12345, 12345)
        assert run("status", str(dest)).exit_code == 2


def test_help_needs_no_file(project: Path):
    write(project, "not TOML")
    assert run("status", "--help").exit_code == 0
    assert run("status", "/t").exit_code == 2


def test_v_shows_which_section_holds(project: Path, dest: Path, caplog: pytest.LogCaptureFixture):
    dest.mkdir()
    file = write(project, f'{ONE}[[destination]]\nprefix = "{dest}"\n')
    assert run("status", str(dest), "-v").exit_code == 0
    assert f"{file}: destination 2 holds" in caplog.text
    caplog.clear()
    assert run("status", str(project), "-v").exit_code == 0
    assert f"{file}: no section holds" in caplog.text


def test_a_program_does_not_read_the_file(project: Path, write_job, dest: Path):
    write(project, f'[[destination]]\nprefix = "{dest}"\nmark_success = false\n')
    write_job({0: {"a": "x"}})
    ray_committer.commit_job(str(dest), executor="inline")
    assert (dest / "_SUCCESS").exists()


def test_a_commit_follows_the_file(project: Path, write_job, dest: Path):
    write(project, f'[[destination]]\nprefix = "{dest}"\nmark_success = false\nexecutor = "inline"\n')
    write_job({0: {"a": "x"}})
    result = run("commit", str(dest), "--assume-complete")
    assert result.exit_code == 0, result.output
    assert not (dest / "_SUCCESS").exists()
    assert SettingsError.exit_code == 2


def test_a_working_directory_that_may_not_be_looked_into_has_no_file(
    project: Path, open_dest: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    """As after `sudo -u spark` in the home of root."""
    inner = open_dest.parent / "closed"
    inner.mkdir()
    monkeypatch.chdir(inner)
    inner.chmod(0)
    request.getfixturevalue("unprivileged")
    assert run("status", str(open_dest.parent)).exit_code == 0


def test_a_working_directory_that_is_gone_and_a_user_without_home_have_no_file(
    project: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    dest.mkdir()
    monkeypatch.setattr(Path, "home", no_home)
    assert run("status", str(dest)).exit_code == 0
    project.rmdir()
    assert run("status", str(dest)).exit_code == 0


def test_the_account_of_a_prefix_can_be_given_elsewhere(project: Path):
    write(project, '[[destination]]\nprefix = "abfs://c/w"\nexecutor = "inline"\n')
    assert given("abfs://c/w/t", "-o", "account_name=a")[2] == "inline"
    assert given("abfss://c@a.dfs.core.windows.net/w/t", "-o", "account_name=a")[2] == "inline"
    assert given("abfss://c@b.dfs.core.windows.net/w/t", "-o", "account_name=a")[2] == "auto"
