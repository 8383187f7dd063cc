"""Open HDFS: over its RPC or, where that cannot be reached, over HTTP."""

from __future__ import annotations

from ray_committer.limits.waiting import RETRY_SECONDS
from ray_committer.stores.base import StoreOperations, StoreSpec


def open_hdfs(spec: StoreSpec, *, retry_seconds: float = RETRY_SECONDS) -> StoreOperations:
    """Open the store of a NameNode; only its RPC needs hdfs-native."""
    if spec.storage_options.get("webhdfs_url"):
        from ray_committer.stores.hdfs.webhdfs import WebHdfsStore

        return WebHdfsStore(spec, retry_seconds=retry_seconds)
    from ray_committer.stores.hdfs.store import HdfsStore

    return HdfsStore(spec, retry_seconds=retry_seconds)
