"""Many calls of Google's JSON API in one request: each part of its body is itself a request.

The parts of the answer are in the order of the calls, each with its own status. Source: the guide of
Cloud Storage on batch requests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from email import message_from_bytes
from email.message import Message
from typing import cast

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.answers import HttpAnswer, headers_of

MOST_CALLS = 100

_BOUNDARY = "a-call-of-ray-committer"
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})\b")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
BATCH_HEADERS = {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}


def encode_batch(method: str, paths: Sequence[str]) -> bytes:
    """Return the body of a request for calls without bodies; `paths` are quoted, and begin at the
    server's root, whatever the URL of the batch is."""
    parts = (
        f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <call+{number}>\r\n\r\n"
        f"{method} {path} HTTP/1.1\r\n\r\n\r\n"
        for number, path in enumerate(paths)
    )
    return f"{''.join(parts)}--{_BOUNDARY}--\r\n".encode()


def decode_batch(answer: HttpAnswer, path: str, calls: int) -> list[HttpAnswer]:
    """Return the answers to `calls` calls; `StoreUnavailableError` with `path` if some are missing."""
    try:
        answers = [call_answer for part in _parts(answer) if (call_answer := _decode(part)) is not None]
    except (ValueError, LookupError):  # the content type is invalid
        answers = []
    if len(answers) != calls:
        raise StoreUnavailableError(
            path, f"the store answered {len(answers)} of {calls} calls of a batch"
        )
    return answers


def _parts(answer: HttpAnswer) -> list[Message]:
    if not answer.body.rstrip().endswith(b"--"):  # the body was cut off
        return []
    kind = f"Content-Type: {answer.headers.get('content-type', '')}\r\n\r\n"
    message = message_from_bytes(kind.encode() + answer.body)
    return cast("list[Message]", message.get_payload()) if message.is_multipart() else []


def _decode(part: Message) -> HttpAnswer | None:
    """Return the answer in a part; None if there is none."""
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes) or (status := _STATUS.match(content)) is None:
        return None
    head, *body = _END_OF_HEAD.split(content, maxsplit=1)
    return HttpAnswer(int(status[1]), headers_of(head.splitlines()), b"".join(body))
