"""Answers of S3 that refuse a request: each is an error of Python's own, as stores raise them.

It names the object with a slash before it, and the right that is missing.
"""

from __future__ import annotations

import errno

from ray_committer.stores.answers import HttpAnswer
from ray_committer.stores.s3 import xml

_NUMBERS = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    405: errno.ENOTSUP,
    501: errno.ENOTSUP,
    412: errno.EEXIST,
}
_RIGHTS = {
    "GET": "s3:GetObject or s3:ListBucket",
    "HEAD": "s3:GetObject and s3:ListBucket",
    "PUT": "s3:PutObject",
    "POST": "s3:PutObject",
    "DELETE": "s3:DeleteObject",
    "LIST": "s3:ListBucket",
    "UPLOADS": "s3:ListBucketMultipartUploads",
    "lifecycle": "s3:GetLifecycleConfiguration",
    "encryption": "s3:GetEncryptionConfiguration",
    "versioning": "s3:GetBucketVersioning",
    "object-lock": "s3:GetBucketObjectLockConfiguration",
    "PARTS": "s3:ListMultipartUploadParts",
    "ABORT": "s3:AbortMultipartUpload",
}
"""The right that a request needs, by its method or, if that has several rights, by what it does."""


def checked(answer: HttpAnswer, name: str, what: str) -> HttpAnswer:
    """Return a successful answer; raise an error with the store's message for any other."""
    if 200 <= answer.status < 300:
        return answer
    raise refusal(answer.status, xml.failure_of(answer), name, what)


def refusal(status: int, failure: xml.Failure, name: str, what: str) -> OSError:
    """The error for an answer that refuses what a request does, a key of `_RIGHTS`."""
    number = _NUMBERS.get(status, errno.EIO)
    if failure.code == "AccessDenied":
        number = errno.EACCES
    message = failure.message or failure.code or "the store refused the request"
    right = f"; it needs the right {_RIGHTS[what]}" if number == errno.EACCES else ""
    return OSError(
        number, f"{message} (HTTP {status} {failure.code}){right}".replace(" )", ")"), f"/{name}"
    )
