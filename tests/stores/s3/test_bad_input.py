"""Servers, buckets, rights and credentials that a commit cannot use: each is named, with what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

import ray_committer
from ray_committer.errors import (
    CommitStateUnknownError,
    PathError,
    PreflightError,
    RayCommitterError,
    SettingsError,
    StoreRefusedError,
    StoreUnavailableError,
    ThrottledError,
)
from ray_committer.jobs import open_job
from ray_committer.options import CommitOptions
from ray_committer.promises.examine import examine
from ray_committer.promises.lines import Verdict
from ray_committer.protocol.actions import LEAST_PART_BYTES, Answer, CompleteUpload
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.stores.answers import CredentialsRefusedError, HttpAnswer, StoreUnusableError
from ray_committer.stores.base import StoredState, StoreSpec
from ray_committer.stores.s3.store import S3Store
from ray_committer.stores.uploads import pending_uploads
from ray_committer.testing import run_commit, visible_files, write_job
from ray_committer.testing.harness import run_undo
from tests.servers.fake_s3 import OPTIONS, Direct, FakeS3, direct_store

DAY = 86_400.0
TASKS = {0: {"p=1/a": b"a", "b": b"bb"}}


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt("/t/table", "job_1", 0)


class Answers(Direct):
    """A server that gives one fixed answer to requests of one method."""

    def __init__(self, server: FakeS3, answer: HttpAnswer, method: str) -> None:
        super().__init__(server)
        self.answer, self.method, self.is_on, self.given = answer, method, False, 0

    def request(
        self, method: str, url: str, *, path: str, headers: Any, data: Any = None, **_: Any
    ) -> HttpAnswer:
        if self.is_on and method == self.method:
            self.given += 1
            return self.answer
        return super().request(method, url, path=path, headers=headers, data=data)


def answering(status: int, code: str, method: str = "GET", text: str = "") -> tuple[S3Store, Answers]:
    server = FakeS3(buckets={"bucket": {}})
    body = f"<Error><Code>{code}</Code><Message>{text or code}</Message></Error>" if code else text
    client: Any = Answers(server, HttpAnswer(status, {"x-amz-id": "1"}, body.encode()), method)
    store = S3Store(StoreSpec("s3", "bucket", OPTIONS), client=client, retry_seconds=1.0)
    client.is_on = True
    return store, client


def test_an_upload_that_is_gone_can_be_named_by_its_object():
    """Ceph answers so."""
    store, _ = answering(404, "NoSuchKey")
    assert not store.is_pending("/a", "id")
    assert store.uploaded_parts("/a", "id") is None
    store, _ = answering(404, "NoSuchKey", "DELETE")
    store.abort_upload("/a", "id")


def test_an_object_without_an_etag_is_not_taken_for_one_with_an_empty_etag():
    """It could be deleted, whatever it is."""
    client: Any = Answers(
        FakeS3(), HttpAnswer(200, {"x-amz-id": "1", "content-length": "1"}, b""), "HEAD"
    )
    client.is_on = True
    store = S3Store(StoreSpec("s3", "bucket", OPTIONS), client=client, retry_seconds=1.0)
    with pytest.raises(StoreUnusableError, match="the server sends no ETag"):
        store.get_status("/a")


def test_a_url_without_a_bucket_is_refused():
    with pytest.raises(StoreRefusedError, match="names no bucket; write s3://bucket/path"):
        S3Store(StoreSpec("s3", ""))


def test_a_bucket_that_is_missing_is_refused_by_the_first_request():
    client: Any = Direct(FakeS3())
    store = S3Store(StoreSpec("s3", "nowhere", OPTIONS), client=client)
    with pytest.raises(StoreRefusedError, match="s3://nowhere: there is no such bucket"):
        store.get_status("/a")


def test_a_bucket_of_another_region_is_named_with_its_region():
    server = FakeS3(region="eu-west-3", buckets={"bucket": {}})
    for request in (S3Store.get_status, S3Store.read):
        with pytest.raises(
            SettingsError, match=r"in region eu-west-3, not in us-east-1; give .* region=eu-west-3"
        ):
            request(direct_store(server), "/a")
    store = direct_store(server, region="eu-west-3")
    assert store.get_status("/missing") is None


@pytest.mark.parametrize(
    ("status", "code", "error", "text"),
    [
        (403, "AccessDenied", PermissionError, r"it needs the right s3:GetObject"),
        (403, "InvalidAccessKeyId", CredentialsRefusedError, "the store refuses the credentials"),
        (403, "SignatureDoesNotMatch", CredentialsRefusedError, "the store refuses the credentials"),
        (400, "ExpiredToken", CredentialsRefusedError, "the store refuses the credentials"),
        (403, "RequestTimeTooSkewed", CredentialsRefusedError, "the clock of this machine differs"),
        (400, "SlowDown", ThrottledError, "/a"),
        (400, "RequestTimeout", StoreUnavailableError, "the store answered 400 RequestTimeout"),
        (404, "NoSuchKey", FileNotFoundError, "NoSuchKey"),
        (404, "NoSuchBucket", StoreRefusedError, "there is no such bucket"),
        (200, "", StoreUnusableError, "the server sends no ETag"),
        (418, "Teapot", OSError, "Teapot"),
    ],
)
def test_each_refusal_is_an_error_of_its_own(status: int, code: str, error: type[Exception], text: str):
    store, _ = answering(status, code)
    with pytest.raises(error, match=text) as caught:
        store.read("/a")
    assert getattr(caught.value, "filename", "/a") == "/a"


@pytest.mark.parametrize(
    ("status", "code", "answer"),
    [
        (404, "NoSuchUpload", Answer.NO_UPLOAD),
        (404, "NoSuchKey", Answer.TAKEN),
        (412, "PreconditionFailed", Answer.TAKEN),
        (200, "InternalError", Answer.UNCLEAR),
    ],
)
def test_each_answer_to_a_completion_has_its_meaning(status: int, code: str, answer: Answer):
    store, _ = answering(status, code, "POST")
    assert store.publish(CompleteUpload("/a", "id", ("p",))) is answer


ALL_REQUESTS: dict[str, Callable[[S3Store], object]] = {
    "HEAD": lambda store: store.get_status("/a"),
    "GET": lambda store: store.read("/a"),
    "list": lambda store: store.list_status("/a"),
    "list uploads": lambda store: store.list_uploads("/a"),
    "PUT": lambda store: store.write("/a", b""),
    "PUT If-None-Match": lambda store: store.create("/a", b""),
    "PUT If-Match": lambda store: store.advance("/a", StoredState("", "e"), "text"),
    "DELETE": lambda store: store.delete_file("/a"),
    "DELETE If-Match": lambda store: store.delete_version("/a", "e"),
    "POST ?delete": lambda store: store.delete_directory("/d"),
    "POST ?uploads": lambda store: store.begin_upload("/a", None),
    "PUT part": lambda store: store.put_part("/a", "id", 1, b""),
    "ListParts": lambda store: store.is_pending("/a", "id"),
    "parts": lambda store: store.uploaded_parts("/a", "id"),
    "Complete": lambda store: store.publish(CompleteUpload("/a", "id", ("p",))),
    "Complete If-Match": lambda store: store.publish(CompleteUpload("/a", "id", ("p",)), "e"),
    "Abort": lambda store: store.abort_upload("/a", "id"),
}


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted", "Other", ""])
@pytest.mark.parametrize("request_", ALL_REQUESTS)
def test_409_means_ask_again_for_each_request(request_: str, code: str):
    """It does not say that a condition does not hold, which 412 says."""
    server = FakeS3(buckets={"bucket": {}})
    store = direct_store(server)
    store.write("/a", b"")
    store.write("/d/a", b"")
    server.conflict = lambda method, name, query: code
    with pytest.raises(StoreUnavailableError, match=f"409 {code}".strip()):
        ALL_REQUESTS[request_](store)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("ConditionalRequestConflict", StoreUnavailableError),
        ("OperationAborted", StoreUnavailableError),
        ("InternalError", StoreUnavailableError),
        ("SlowDown", ThrottledError),
        ("AccessDenied", PermissionError),
    ],
)
def test_a_file_that_is_left_out_of_a_deletion_of_many_is_named_with_its_reason(
    code: str, error: type[Exception]
):
    server = FakeS3(buckets={"bucket": {}})
    store = direct_store(server)
    for name in "ab":
        store.write(f"/d/{name}", b"")
    server.conflict = lambda method, name, query: code if (method, name) == ("DELETE", "d/b") else None
    with pytest.raises(error) as caught:
        store.delete_directory("/d")
    assert getattr(caught.value, "filename", "/d/b") == "/d/b"
    assert [*server.buckets["bucket"]] == ["d/b"]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "InvalidPart", OSError),
        (403, "AccessDenied", PermissionError),
        (404, "NoSuchBucket", StoreRefusedError),
        (200, "", StoreUnavailableError),
    ],
)
def test_other_answers_to_a_completion_are_errors(status: int, code: str, error: type[Exception]):
    store, _ = answering(status, code, "POST")
    with pytest.raises(error):
        store.publish(CompleteUpload("/a", "id", ("p",)))


def test_an_answer_of_a_proxy_never_means_that_nothing_is_there():
    server = FakeS3(buckets={"bucket": {}})
    client: Any = Answers(server, HttpAnswer(404, {"server": "a proxy"}, b""), "HEAD")
    store = S3Store(StoreSpec("s3", "bucket", OPTIONS), client=client)
    client.is_on = True
    with pytest.raises(StoreUnavailableError, match="the answer is not the store's"):
        store.get_status("/a")


@pytest.mark.parametrize(
    ("ignored", "text"),
    [
        ("put", "writes an object although a condition of the request does not hold"),
        ("complete", "completes an upload over an object although it must not replace one"),
        ("delete", "give the storage option conditional_deletes=false"),
    ],
)
def test_a_server_that_ignores_conditions_is_refused_before_any_task_runs(
    job: JobAttempt, ignored: str, text: str
):
    server = FakeS3(ignores=frozenset({ignored}))
    with pytest.raises(StoreRefusedError, match=text) as caught:
        write_job(direct_store(server), job, TASKS)
    assert caught.value.exit_code == 1
    assert server.buckets["bucket"] == {}
    assert server.uploads == {}


def test_a_server_without_uploads_is_refused_before_any_task_runs(job: JobAttempt):
    server = FakeS3(has_uploads=False)
    with pytest.raises(StoreRefusedError, match=r"the server has no multipart uploads: .* use a server"):
        write_job(direct_store(server), job, TASKS)
    assert server.buckets["bucket"] == {}


def test_a_server_that_writes_what_is_gone_is_refused(job: JobAttempt):
    server = FakeS3(revives=True)
    with pytest.raises(StoreRefusedError, match="although a condition of the request does not hold"):
        write_job(direct_store(server), job, TASKS)
    assert server.buckets["bucket"] == {}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ExpiredToken", "the store refuses the credentials"),
        ("InvalidAccessKeyId", "the store refuses the credentials"),
        ("RequestTimeTooSkewed", "the clock of this machine differs from that of the store"),
    ],
)
def test_credentials_and_clocks_are_named_before_any_task_runs_and_before_the_record(
    job: JobAttempt, code: str, text: str
):
    server = FakeS3(refuses=code)
    with pytest.raises(CredentialsRefusedError, match=text):
        write_job(direct_store(server), job, TASKS)
    server = FakeS3()
    write_job(direct_store(server), job, TASKS)
    store, server.refuses = direct_store(server), code
    with pytest.raises((RayCommitterError, OSError), match=text):
        run_commit(store, job)
    server.refuses = ""
    assert visible_files(store, job.destination) == {}
    run_commit(store, job)
    assert visible_files(store, job.destination) == TASKS[0]


def test_a_rule_that_soon_aborts_uploads_is_named_before_the_record(job: JobAttempt):
    server = FakeS3(abort_rules=(("t/", 7),))
    write_job(direct_store(server), job, TASKS)
    orphan = direct_store(server).begin_upload("/t/table/orphan", None)
    server.uploads[orphan].began -= 6.5 * DAY
    assert run_commit(direct_store(server), job).notices == []
    for days, is_named in ((5.9, False), (6.1, True)):
        again = FakeS3(abort_rules=(("t/", 7),))
        write_job(direct_store(again), job, TASKS)
        next(iter(again.uploads.values())).began -= days * DAY
        notices = run_commit(direct_store(again), job).notices
        assert bool(notices) is is_named
        assert all("in less than a day, a rule of the bucket aborts uploads" in one for one in notices)


def test_rules_that_cannot_be_read_do_not_concern_a_commit(job: JobAttempt):
    server = FakeS3(denied={("GET", "lifecycle")})
    write_job(direct_store(server), job, TASKS)
    assert run_commit(direct_store(server), job).moved == 2


def test_a_server_without_conditional_deletes_is_used_with_a_look_at_each_file(job: JobAttempt):
    server = FakeS3(ignores=frozenset({"delete"}))
    store = direct_store(server, conditional_deletes="false")
    write_job(store, job, TASKS)
    run_commit(store, job)
    assert visible_files(store, job.destination) == TASKS[0]
    status = store.get_status("/t/table/b")
    assert status is not None
    store.write("/t/table/b", b"another")
    with pytest.raises(FileExistsError):
        store.delete_version("/t/table/b", status.version)
    assert store.read("/t/table/b") == b"another"


RIGHTS = [
    (("PUT", ""), "s3:PutObject"),
    (("POST", "uploads"), "s3:PutObject"),
    (("PUT", "uploadId"), "s3:PutObject"),
    (("POST", "uploadId"), "s3:PutObject"),
    (("DELETE", "uploadId"), "s3:AbortMultipartUpload"),
    (("DELETE", ""), "s3:DeleteObject"),
    (("GET", "list-type"), "s3:ListBucket"),
    (("GET", "uploads"), "s3:ListBucketMultipartUploads"),
    (("GET", "uploadId"), "s3:ListMultipartUploadParts"),
]


@pytest.mark.parametrize(("denied", "right"), RIGHTS, ids=[right for _, right in RIGHTS])
def test_a_right_that_is_missing_is_named_before_any_task_runs(
    job: JobAttempt, denied: tuple[str, str], right: str
):
    server = FakeS3(denied={denied})
    with pytest.raises(PermissionError, match=f"it needs the right {right}"):
        write_job(direct_store(server), job, {})


def test_the_right_to_list_uploads_is_needed_before_the_record(job: JobAttempt):
    server = FakeS3()
    write_job(direct_store(server), job, TASKS)
    server.denied = {("GET", "uploads")}
    with pytest.raises(RayCommitterError, match="s3:ListBucketMultipartUploads") as caught:
        run_commit(direct_store(server), job)
    assert caught.value.exit_code == 1
    assert visible_files(direct_store(server), job.destination) == {}


def test_expired_keys_are_renewed_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "old")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    server = FakeS3(buckets={"bucket": {}})
    seen: list[str] = []

    class Expiring(Direct):
        def request(self, method: str, url: str, *, path: str, headers: Any, data: Any = None, **_: Any):
            seen.append(headers["authorization"].partition("Credential=")[2].partition("/")[0])
            if seen[-1] == "old" and method == "GET":
                body = b"<Error><Code>ExpiredToken</Code></Error>"
                return HttpAnswer(400, {"x-amz-id": "1"}, body)
            return super().request(method, url, path=path, headers=headers, data=data)

    options = {name: value for name, value in OPTIONS.items() if name not in ("key", "secret")}
    client: Any = Expiring(server)
    store = S3Store(StoreSpec("s3", "bucket", options), client=client)
    store.write("/a", b"1")
    with pytest.raises(CredentialsRefusedError, match="ExpiredToken"):
        store.read("/a")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "new")
    assert store.read("/a") == b"1"
    assert seen[-2:] == ["old", "new"]


def test_a_listing_of_many_pages_is_whole():
    server = FakeS3(page=2)
    store = direct_store(server)
    names = {f"/d/f {number}+%" for number in range(7)}
    for name in names:
        store.write(name, b"x")
        store.begin_upload(name, None)
    assert {one.path for one in store.list_files("/d")} == names
    assert {one.path for one in store.list_status("/d")} == names
    assert {one.path for one in pending_uploads(store, "/d")} == names
    assert store.delete_directory("/d")
    assert store.list_files("/d") == []


def test_names_that_a_reader_cannot_have_are_refused_before_a_byte_is_written(
    monkeypatch: pytest.MonkeyPatch,
):
    store = direct_store(FakeS3())
    monkeypatch.setattr(open_job, "open_store", lambda *_, **__: store)
    dest = "s3://bucket/t"
    ray_committer.setup_job(dest, "j")
    for name in ("./a", "a/../b", "a\0b", ""):
        with (
            pytest.raises(PathError, match=r"contains a|leads out"),
            ray_committer.task_attempt(dest, "j", 0) as attempt,
        ):
            attempt.open(name)
    with (
        pytest.raises(PreflightError, match=r"x{1000}.*1024"),
        ray_committer.task_attempt(dest, "j", 1) as attempt,
    ):
        attempt.open("x" * 1025)
    assert visible_files(store, "/t") == {}


def test_parts_that_are_smaller_than_they_say_are_refused_by_the_server_and_given_up(job: JobAttempt):
    """A manifest that lies of its size passes all checks; the server does not."""
    server = FakeS3()
    store = direct_store(server)
    write_job(store, job, TASKS)
    (upload,) = [one for one, held in server.uploads.items() if held.name == "t/table/b"]
    store.put_part("/t/table/b", upload, 2, b"bb")
    (path,) = [one.path for one in store.list_files(job.manifests)]
    manifest = decode_manifest(store.read(path), path)
    etag = hashlib.md5(b"bb").hexdigest()
    files = [
        structs.replace(one, z=LEAST_PART_BYTES + 1, p=(etag, etag)) if one.u == upload else one
        for one in manifest.files
    ]
    store.write(path, encode_manifest(structs.replace(manifest, files=files)))
    with pytest.raises(CommitStateUnknownError, match=r"/t/table/b: its upload .* EntityTooSmall"):
        run_commit(store, job)
    assert run_undo(store, job)
    assert (visible_files(store, job.destination), server.uploads) == ({}, {})


REDIRECTED = b"<Error><Code>PermanentRedirect</Code><Endpoint>b.s3.example</Endpoint></Error>"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (HttpAnswer(301, {"x-amz-id": "1"}, b""), "redirects to another address .* names no region"),
        (HttpAnswer(301, {"x-amz-id": "1"}, REDIRECTED), r"redirects to b\.s3\.example \(HTTP 301\)"),
        (
            HttpAnswer(307, {"x-amz-id": "1", "location": "https://u:secret@s3-x.example/b/a?X=y"}, b""),
            r"redirects to s3-x\.example \(HTTP 307\) and names no region",
        ),
        (HttpAnswer(308, {"x-amz-id": "1"}, b""), "redirects to another address"),
        (
            HttpAnswer(301, {"x-amz-bucket-region": "eu-west-3"}, b""),
            "is in region eu-west-3, not in us-east-1",
        ),
        (
            HttpAnswer(
                400,
                {"x-amz-id": "1"},
                b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>no</Message></Error>",
            ),
            "refuses the region us-east-1 and names no other: no",
        ),
    ],
)
def test_a_redirection_says_where_it_leads(answer: HttpAnswer, text: str):
    store, client = answering(301, "")
    client.answer = answer
    with pytest.raises(SettingsError, match=text) as caught:
        store.read("/a")
    assert "secret" not in str(caught.value)


class Lacks(Direct):
    """A server of S3's API whose answers lack a header, or which refuses those with a condition."""

    def __init__(self, server: FakeS3, lacks: str) -> None:
        super().__init__(server)
        self.lacks = lacks

    def request(self, method: str, url: str, *, headers: Any, **rest: Any) -> HttpAnswer:
        if self.lacks == "conditions" and {"if-match", "if-none-match"} & set(headers):
            body = b"<Error><Code>NotImplemented</Code><Message>no such header</Message></Error>"
            return HttpAnswer(501, {"x-amz-id": "1"}, body)
        found = super().request(method, url, headers=headers, **rest)
        kept = {name: value for name, value in found.headers.items() if not name.startswith(self.lacks)}
        return found._replace(headers=kept)


@pytest.mark.parametrize(
    ("lacks", "text"),
    [
        ("etag", "s3://bucket: the server cannot be used: the server sends no ETag"),
        ("conditions", "s3://bucket: the server cannot be used: no such header"),
        ("x-amz", "the server sends no x-amz header"),
    ],
)
def test_a_server_that_lacks_what_a_commit_needs_is_refused_when_a_job_is_set_up(lacks: str, text: str):
    client: Any = Lacks(FakeS3(buckets={"bucket": {}}), lacks)
    store = S3Store(StoreSpec("s3", "bucket", OPTIONS), client=client, retry_seconds=1.0)
    with pytest.raises((StoreRefusedError, StoreUnusableError), match=text):
        write_job(store, new_job_attempt("/t/table", "job_1", 0), TASKS)
    diagnosis = examine(store, "/t/table", "inline", CommitOptions())
    failed = [line.measured for line in diagnosis.lines if line.verdict is Verdict.FAILED]
    assert failed
    assert not any("login page" in line.measured for line in diagnosis.lines)
    assert any(text.rpartition(": ")[2] in measured for measured in failed)
