"""What the doctor finds out about a bucket: rights, conditions, rules, encryption, versions, clock."""

from __future__ import annotations

import time
from email.utils import formatdate
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.promises.examine import examine
from ray_committer.promises.lines import Line, Verdict
from ray_committer.stores.answers import HttpAnswer
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from tests.servers.fake_s3 import OPTIONS, Direct, FakeS3, direct_store

OK, WARNING, FAILED, NOTE = Verdict.OK, Verdict.WARNING, Verdict.FAILED, Verdict.NOTE


def diagnose(store: S3Store) -> dict[str, Line]:
    found = {one.name: one for one in examine(store, "/w/table", "threads", CommitOptions()).lines}
    assert len(found) > 10 or found["write"].verdict is FAILED
    return found


def test_nothing_is_wrong_with_a_bucket_that_has_a_rule():
    fake = FakeS3(abort_rules=(("w/", 14),))
    found = diagnose(direct_store(fake))
    assert {name for name, one in found.items() if one.verdict in (WARNING, FAILED)} <= {"spark"}
    assert found["rights"].measured == "list, read, write, upload, complete, abort and delete"
    assert found["region"].measured == "us-east-1, http://fake/bucket"
    assert (fake.buckets["bucket"], fake.uploads) == ({}, {})


RIGHTS = [
    (("PUT", ""), "s3:PutObject (write)"),
    (("GET", ""), "s3:GetObject (read)"),
    (("GET", "list-type"), "s3:ListBucket (list objects)"),
    (("POST", "uploads"), "s3:PutObject (begin an upload)"),
    (("PUT", "uploadId"), "s3:PutObject (upload a part)"),
    (("POST", "uploadId"), "s3:PutObject (complete an upload)"),
    (("GET", "uploadId"), "s3:ListMultipartUploadParts (look at an upload)"),
    (("GET", "uploads"), "s3:ListBucketMultipartUploads (list uploads)"),
    (("DELETE", "uploadId"), "s3:AbortMultipartUpload (abort an upload)"),
    (("DELETE", ""), "s3:DeleteObject (delete)"),
]


def test_each_missing_right_is_named_and_all_of_them_at_once():
    for denied, right in RIGHTS:
        found = diagnose(direct_store(FakeS3(denied={denied})))["rights"]
        assert (found.verdict, found.measured) == (FAILED, f"missing: {right}")
    every = diagnose(direct_store(FakeS3(denied={denied for denied, _ in RIGHTS})))["rights"]
    assert [right for _, right in RIGHTS if right not in every.measured] == []


@pytest.mark.parametrize(
    ("rules", "verdict", "text"),
    [
        ((), WARNING, "no rule of the bucket aborts uploads that nobody completes"),
        ((("elsewhere/", 1),), WARNING, "no rule of the bucket"),
        ((("", 30), ("w/table/p=1", 3)), WARNING, "aborts uploads 3 days after they began, also those"),
        ((("", 7),), OK, "aborts uploads 7 days after they began"),
    ],
)
def test_the_shortest_rule_that_applies_is_compared_with_a_week(
    rules: tuple[tuple[str, int], ...], verdict: Verdict, text: str
):
    found = diagnose(direct_store(FakeS3(abort_rules=rules)))["abort rule"]
    assert (found.verdict, text in found.measured) == (verdict, True), found
    assert ('"Prefix": "w/table/"' in found.advice) is ("no rule" in text)


@pytest.mark.parametrize("ignored", ["put", "complete", "delete"])
def test_a_server_that_ignores_conditions_fails(ignored: str):
    found = diagnose(direct_store(FakeS3(ignores=frozenset({ignored}))))
    assert found["conditions"].verdict is FAILED
    assert found["conditions"].advice


class Set(Direct):
    """A bucket with settings; `clock` is how far its clock is ahead, in seconds."""

    def __init__(self, fake: FakeS3, settings: dict[str, str], clock: float = 0.0) -> None:
        super().__init__(fake)
        self.settings, self.clock = settings, clock

    def request(self, method: str, url: str, **rest: Any) -> HttpAnswer:
        _, _, asked = url.partition("?")
        if asked.rstrip("=") in self.settings:
            text = self.settings[asked.rstrip("=")]
            status = 403 if "AccessDenied" in text else 200
            return HttpAnswer(status, {"x-amz-id": "1"}, text.encode())
        answer = super().request(method, url, **rest)
        return answer._replace(
            headers={**answer.headers, "date": formatdate(time.time() + self.clock, usegmt=True)}
        )


def settled(settings: dict[str, str], clock: float = 0.0, **fake: Any) -> dict[str, Line]:
    server = FakeS3(buckets={"bucket": {}}, **fake)
    client: Any = Set(server, settings, clock)
    return diagnose(S3Store(StoreSpec("s3", "bucket", OPTIONS), client=client, retry_seconds=1.0))


def encrypted(kind: str) -> dict[str, str]:
    rule = f"<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>{kind}</SSEAlgorithm>"
    inner = f"{rule}</ApplyServerSideEncryptionByDefault></Rule>"
    root = "ServerSideEncryptionConfiguration"
    return {"encryption": f"<{root}>{inner}</{root}>"}


def test_the_encryption_says_how_a_file_is_proved():
    found = settled(encrypted("AES256"))["encryption"]
    assert (found.verdict, found.measured[:7]) == (OK, "AES256:")
    found = settled(encrypted("aws:kms"), hides_md5=True)["encryption"]
    assert (found.verdict, found.measured[:8]) == (NOTE, "aws:kms:")
    assert "proved by the stamp of its job" in found.measured
    denied = {"encryption": "<Error><Code>AccessDenied</Code></Error>"}
    assert settled(denied)["encryption"].measured.startswith("not known, because it may not be read: ")


def test_versions_and_locks_are_warnings():
    versions = {
        "versioning": "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    }
    found = settled(versions)["versions"]
    assert (found.verdict, "is kept and billed" in found.measured) == (WARNING, True)
    locks = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>"
    found = settled({"object-lock": f"{locks}</ObjectLockConfiguration>"})["versions"]
    assert (found.verdict, "can be locked" in found.measured) == (WARNING, True)


def test_the_clock_is_compared_with_that_of_the_store():
    assert settled({}, clock=-2)["clock"].verdict is OK
    found = settled({}, clock=600.6)["clock"]
    assert found.verdict is WARNING
    assert found.measured in ("600 s from that of the store", "601 s from that of the store")
    assert diagnose(direct_store(FakeS3()))["clock"].measured == "the store shows no time"
