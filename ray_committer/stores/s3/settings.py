"""What a bucket is set to, for the doctor: encryption, versions, locks, its region and clock."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from ray_committer.stores.answers import read_field
from ray_committer.stores.s3.bucket import S3Bucket


class S3Settings:
    """`BucketSettings` of a bucket of S3's API; what a server does not know is not set there."""

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket

    def encryption(self) -> str | None:
        return self._text("encryption", ".//SSEAlgorithm")

    def versioning(self) -> str | None:
        return self._text("versioning", "Status")

    def locks_objects(self) -> bool:
        return self._text("object-lock", "ObjectLockEnabled") == "Enabled"

    def place(self) -> str:
        return self._bucket.shown_place()

    def clock_seconds(self) -> float | None:
        before = time.time()
        date = self._bucket.look().headers.get("date")
        middle = (before + time.time()) / 2
        if not date:
            return None
        return read_field(parsedate_to_datetime, date, "Date", "/").timestamp() - middle

    def _text(self, setting: str, element: str) -> str | None:
        root = self._bucket.setting(setting)
        return None if root is None else root.findtext(element) or None
