"""A bucket of a test's S3 server, as boto3 shows it: objects, and uploads that wait for completion."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3


@dataclass(frozen=True)
class Bucket:
    """One bucket of the server at `endpoint`."""

    client: Any
    endpoint: str
    name: str

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """All objects whose key begins with `prefix`, and their content."""
        return {key: self.read(key) for key in self.names(prefix)}

    def names(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def read(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def write(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def uploads(self) -> dict[str, str]:
        """The ids of all uploads that are neither completed nor aborted, by key."""
        found = self.client.list_multipart_uploads(Bucket=self.name)
        assert not found["IsTruncated"]
        return {one["Key"]: one["UploadId"] for one in found.get("Uploads", ())}

    def abort(self, key: str) -> None:
        """End the upload of `key`, as a rule of the bucket does when it is too old."""
        self.client.abort_multipart_upload(Bucket=self.name, Key=key, UploadId=self.uploads()[key])


@contextmanager
def new_bucket(endpoint: str) -> Iterator[Bucket]:
    """An empty bucket that no other test knows; it is not deleted."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    name = f"bucket-{uuid.uuid4()}"
    client.create_bucket(Bucket=name)
    try:
        yield Bucket(client, endpoint, name)
    finally:
        client.close()
