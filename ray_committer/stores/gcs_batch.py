"""Many calls of Google's JSON API in one request: a part for each, which is a request of its own.

The parts of the answer are in the order of the calls, each with its own status. Source: the guide of
Cloud Storage on batch requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from email import message_from_bytes

from ray_committer.errors import StoreUnavailableError
from ray_committer.stores.http import HttpAnswer, headers_of

MOST_CALLS = 100

_BOUNDARY = "a-call-of-ray-committer"
_STATUS = re.compile(rb"HTTP/[\d.]+ (\d{3})\b")
BATCH_HEADERS = {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}


def encode_batch(method: str, urls: Sequence[str]) -> bytes:
    """The body of a request for calls without bodies; of a URL only what follows the server is sent."""
    parts = (
        f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <call+{number}>\r\n\r\n"
        f"{method} /{url.split('/', 3)[3]} HTTP/1.1\r\n\r\n\r\n"
        for number, url in enumerate(urls)
    )
    return f"{''.join(parts)}--{_BOUNDARY}--\r\n".encode()


def decode_batch(answer: HttpAnswer, path: str, calls: int) -> list[HttpAnswer]:
    """The answer to each of so many calls; `StoreUnavailableError`, which names `path`, of any less."""
    answers = list(_decode(answer))
    if len(answers) != calls:
        raise StoreUnavailableError(
            path, f"the store answered {len(answers)} of {calls} calls of a batch"
        )
    return answers


def _decode(answer: HttpAnswer) -> Iterator[HttpAnswer]:
    kind = f"Content-Type: {answer.headers.get('content-type', '')}\r\n\r\n"
    for part in message_from_bytes(kind.encode() + answer.body).walk():
        content = part.get_payload(decode=True)
        if isinstance(content, bytes) and (status := _STATUS.match(content)):
            head, _, body = content.partition(b"\r\n\r\n")
            yield HttpAnswer(int(status[1]), headers_of(head.split(b"\r\n")), body)
