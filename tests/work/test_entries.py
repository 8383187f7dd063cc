"""An entry leads from its task attempt's directory to where the job can write, or is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import PathError, PreflightError
from ray_committer.protocol.actions import Rename
from ray_committer.protocol.manifest import FileEntry, TaskManifest
from ray_committer.protocol.recovery import Expectation
from ray_committer.testing import MemoryStore, run_commit
from ray_committer.work.entries import check_directory, check_entry, entries, store_path
from tests.stages.manifests import edit, refused, set_dest
from tests.stages.support import JOB


def test_an_allowed_root_outside_the_destination_is_accepted(store, write_job, tmp_path: Path):
    job = write_job({0: {"a": "x"}})
    elsewhere = tmp_path / "elsewhere"
    edit(job, 0, set_dest(f"file:{elsewhere}/p/a"))
    run_commit(store, job, CommitOptions(allowed_roots=(str(elsewhere),)))
    assert (elsewhere / "p" / "a").read_text() == "x"


@pytest.mark.parametrize("outside", ["/elsewhere", "{}/_temporary/other", "{}x"])
def test_a_directory_outside_the_destination_is_not_made(store, write_job, dest: Path, outside: str):
    job = write_job({0: {"a": "x"}})
    path = outside.format(dest)
    edit(job, 0, lambda c: c.update(directories=[{"d": f"file:{path}", "t": 0, "l": 1}]))
    error = refused(store, job)
    assert isinstance(error, PreflightError)
    assert f"{path}: is not a directory" in str(error)


SPEC = MemoryStore().spec
ATTEMPT = f"{JOB.tasks}/attempt"
ROOTS = ("/table", "/allowed")


def manifest(files: int) -> TaskManifest:
    listed = [
        FileEntry(
            s=f"memory://test{ATTEMPT}/p=1/{n}", d=f"memory://test/table/p=1/{n}", z=n, e=f"e{n}", m=n
        )
        for n in range(files)
    ]
    return TaskManifest(files=listed)


@pytest.mark.parametrize("files", [0, 1, 10])
def test_each_entry_has_the_paths_and_the_evidence_of_the_manifest(files: int):
    assert list(entries(manifest(files), SPEC)) == [
        Rename(f"{ATTEMPT}/p=1/{n}", f"/table/p=1/{n}", Expectation(n, f"e{n}", n)) for n in range(files)
    ]


def test_the_version_is_the_etag_where_the_store_says_so():
    found = entries(manifest(2), SPEC, etag_is_version=True)
    assert [entry.version for entry in found] == ["e0", "e1"]
    assert [entry.version for entry in entries(manifest(2), SPEC)] == [None, None]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("memory://test/table/a", "/table/a"),
        ("memory://test/table/a%20b/c%25d", "/table/a b/c%d"),
        ("/table/a", "/table/a"),
        ("memory://test/a", "/a"),
        ("memory://test/table/a%2Fb", "/table/a/b"),
        ("memory://test/table/a/", "/table/a"),
    ],
)
def test_a_uri_is_a_path_of_this_store(uri: str, path: str):
    assert store_path(uri, SPEC) == path


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("memory://other/table/a", PreflightError),
        ("s3://test/table/a", PreflightError),
        ("memory://test/table/../a", PathError),
        ("memory://test/table/..", PathError),
        ("memory://test/table/%2E%2E", PathError),
        ("table/a", PathError),
        ("", PathError),
    ],
)
def test_a_uri_that_leads_elsewhere_is_refused(uri: str, error: type[Exception]):
    with pytest.raises(error):
        store_path(uri, SPEC)


KEY = "0123456789abcdef0123456789abcdef"
TOKEN = "0000001300000019"
STAGED = JOB.staged(KEY)


def checked(source: str, dest: str, token: str | None = TOKEN) -> None:
    entry = Rename(source, dest, Expectation(0))
    check_entry(entry, JOB, ATTEMPT, ROOTS, MemoryStore(), token=token)


@pytest.mark.parametrize("dest", ["/table/a", "/table/p=1/q=1/a", "/table/_hidden", "/allowed/a"])
def test_an_entry_into_an_allowed_root_passes(dest: str):
    checked(f"{ATTEMPT}/p=1/a", dest)


@pytest.mark.parametrize(
    "source", [f"{STAGED}/a-{TOKEN}.b", f"{STAGED}/a-{TOKEN}", f"{JOB.staged_root(19)}/a-{TOKEN}_0.b"]
)
def test_a_staged_file_that_is_named_for_the_attempt_passes(source: str):
    checked(source, "/table/p=1/a")


@pytest.mark.parametrize(
    "name",
    [
        "a.b",
        f"a-{TOKEN}0.b",
        f"a-{TOKEN[:-1]}.b",
        f"a{TOKEN}.b",
        f"a-{TOKEN.replace('13', '1D')}.b",
        "a-0000001300000190.b",
        "a-000000130000001a.b",
        "a-0000019000000019.b",
    ],
)
@pytest.mark.parametrize("directory", [STAGED, JOB.staged_root(19)])
def test_a_staged_file_of_another_attempt_is_refused(directory: str, name: str):
    with pytest.raises(PreflightError, match="is not named for the task attempt"):
        checked(f"{directory}/{name}", "/table/p=1/a")


def test_an_attempt_whose_id_has_no_numbers_has_no_staged_files():
    with pytest.raises(PreflightError, match="is not named for the task attempt"):
        checked(f"{STAGED}/a-{TOKEN}.b", "/table/p=1/a", token=None)


@pytest.mark.parametrize("dest", ["/tablex/a", "/table/_SUCCESS", f"{JOB.manifests}/a"])
def test_a_staged_file_goes_only_to_where_the_job_can_write(dest: str):
    with pytest.raises(PreflightError):
        checked(f"{STAGED}/a-{TOKEN}.b", dest)


@pytest.mark.parametrize(
    ("source", "dest", "text"),
    [
        (f"{JOB.tasks}/in/a-{TOKEN}", "/table/a", "not below its task attempt's directory"),
        (f"{STAGED}/p=1/a-{TOKEN}", "/table/a", "not below its task attempt's directory"),
        (f"{JOB.tasks}/root/64/a-{TOKEN}", "/table/a", "not below its task attempt's directory"),
        ("/etc/passwd", "/table/a", "not this job's to move"),
        (f"{JOB.tasks}x/attempt/a", "/table/a", "not this job's to move"),
        (f"{JOB.tasks}/attempt_2/a", "/table/a", "not below its task attempt's directory"),
        (f"{JOB.tasks}/a", "/table/a", "not below its task attempt's directory"),
        (f"{ATTEMPT}/a", "/tablex/a", "outside the destination"),
        (f"{ATTEMPT}/a", "/table", "outside the destination"),
        (f"{ATTEMPT}/a", "/table/_SUCCESS", "the commit itself needs"),
        (f"{ATTEMPT}/a", "/table/_SUCCESS/a", "the commit itself needs"),
        (f"{ATTEMPT}/a", f"{JOB.manifests}/a", "the commit itself needs"),
        (f"{ATTEMPT}/a", "/table/" + "x" * 256, "longer than the store allows"),
        (f"{ATTEMPT}/a", "/table/" + "x" * 256 + "/a", "longer than the store allows"),
        (f"{ATTEMPT}/a", "/table" + "/xxxxxxx" * 512, "longer than the store allows"),
    ],
)
def test_an_entry_that_leads_out_is_refused_by_its_path(source: str, dest: str, text: str):
    with pytest.raises(PreflightError, match=text):
        checked(source, dest)


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("/table", True),
        ("/table/p=1", True),
        ("/allowed", True),
        ("/", False),
        ("/tablex", False),
        ("/table/_temporary", False),
        ("/table/_temporary/job_2", False),
        ("/table/_SUCCESS", False),
        ("/table/p=" + "x" * 256, False),
    ],
)
def test_only_directories_below_the_roots_can_be_made(path: str, is_allowed: bool):
    if is_allowed:
        check_directory(path, JOB, ROOTS, MemoryStore())
    else:
        with pytest.raises(PreflightError, match=path[:20]):
            check_directory(path, JOB, ROOTS, MemoryStore())


@pytest.mark.parametrize("directory", ["", "p=1/"])
def test_a_name_that_the_store_cannot_have_is_refused_in_each_directory(directory: str):
    no_lines = MemoryStore()
    no_lines.capabilities = replace(no_lines.capabilities, refused_characters="\r\n")
    entry = Rename(f"{ATTEMPT}/{directory}a", f"/table/{directory}a\nb", Expectation(1))
    check_entry(entry, JOB, ATTEMPT, ROOTS, MemoryStore(), token=None)
    with pytest.raises(PreflightError, match="which the store refuses in a name"):
        check_entry(entry, JOB, ATTEMPT, ROOTS, no_lines, token=None)
