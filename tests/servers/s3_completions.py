"""How servers of S3 answer to the completion of an upload that is no more, in front of moto.

AWS answers the second completion of one upload as the first; MinIO and S3Mock answer 404. Moto does as
AWS, but fails with 500 where an upload was aborted, which AWS answers with 404, too.
"""

from __future__ import annotations

import re

from tests.servers.proxy import Answer, Request, Send

NO_SUCH_UPLOAD = Answer(
    404,
    {"Content-Type": "application/xml"},
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchUpload</Code>'
    b"<Message>The specified upload does not exist.</Message><RequestId>1</RequestId></Error>",
)
_UPLOAD = re.compile(r"[?&]uploadId=([^&]+)")


def is_completion(request: Request) -> bool:
    """Whether a request completes an upload."""
    return request.method == "POST" and _UPLOAD.search(request.path) is not None


async def like_aws(request: Request, send: Send) -> Answer:
    """Answer as AWS does: 404 for the completion of an upload that was aborted."""
    answer = await send(request)
    return NO_SUCH_UPLOAD if answer.status == 500 and is_completion(request) else answer


class LikeMinio:
    """Answers as MinIO does: 404 also for an upload that was completed."""

    def __init__(self) -> None:
        self._completed: set[str] = set()

    async def __call__(self, request: Request, send: Send) -> Answer:
        """Answer one request."""
        upload = _UPLOAD.search(request.path)
        if request.method != "POST" or upload is None:
            return await send(request)
        if upload[1] in self._completed:
            return NO_SUCH_UPLOAD
        answer = await like_aws(request, send)
        if answer.status == 200:
            self._completed.add(upload[1])
        return answer
