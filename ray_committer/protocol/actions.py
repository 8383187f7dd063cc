"""What puts a file in place: a rename or, on S3, the completion of an upload.

S3 renames nothing. A task uploads the parts of a file, and nobody sees the file until the upload is
completed: one atomic request, like a rename. The etag of the completed file follows from those of its
parts, so it is known before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import md5

_MD5 = re.compile(r"[0-9a-f]{32}")


def predict_etag(parts: Sequence[str]) -> str | None:
    """Return the etag that a completed upload has, from the etags of its parts; None if those are not
    MD5 sums, as with encryption by keys of KMS or of the client."""
    if not parts or not all(map(_MD5.fullmatch, parts)):
        return None
    joined = b"".join(map(bytes.fromhex, parts))
    return f"{md5(joined, usedforsecurity=False).hexdigest()}-{len(parts)}"
