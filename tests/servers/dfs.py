"""Azure Data Lake Storage Gen2 in memory: the DFS calls of a committer, and the blob calls of adlfs.

No emulator has the DFS calls, so this one stands for Azure: semantics are from the reference and from
Hadoop's ABFS. Microsoft's own client and adlfs talk to it in the tests, so it is not ours alone.
"""

from __future__ import annotations

import asyncio
import json
import stat
import threading
import time
from collections import Counter
from email.utils import formatdate
from urllib.parse import unquote

from aiohttp import web

from tests.servers import dfs_blob
from tests.servers.dfs_auth import Account, decoded_query, split_source
from tests.servers.dfs_tree import DfsError, Node, Tree
from tests.servers.faults import Fault, Faults

ACCOUNT = "lakeaccount"
KEY = "a2V5IG9mIHRoZSBoaWVyYXJjaGljYWwgYWNjb3VudCBvZiB0aGUgdGVzdHM="

Answer = tuple[int, dict[str, str], bytes]


class DfsServer:
    """One account on a port of this machine, served by a thread of this process.

    `hierarchical` is what it says of its namespace; `denied` holds the names of calls answered with 403;
    `calls` counts requests by name.
    """

    def __init__(self, *, hierarchical: bool = True) -> None:
        self.account = Account(ACCOUNT, KEY)
        self.containers: dict[str, Tree] = {}
        self.hierarchical = hierarchical
        self.denied: set[str] = set()
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="dfs-server", daemon=True)
        self._started = threading.Event()
        self._stopped = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def connection_string(self, *, sas: str | None = None) -> str:
        secret = f"SharedAccessSignature={sas}" if sas else f"AccountKey={KEY}"
        return f"AccountName={ACCOUNT};{secret};BlobEndpoint={self.url};DefaultEndpointsProtocol=http"

    def clear(self, container: str) -> None:
        """Leave one empty container, and no faults."""
        self.containers.clear()
        self.containers[container] = Tree()
        self.hierarchical = True
        self.denied = set()
        self.faults = Faults()
        self.calls.clear()

    def start(self) -> None:
        self._thread.start()
        self._started.wait(10)

    def stop(self) -> None:
        """End it; idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.port = runner.addresses[0][1]
        self._started.set()
        await self._stopped.wait()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        call = Call(self, request, await request.read())
        self.calls[call.name] += 1
        fault = await self.faults.choose(call.name)
        if fault is Fault.THROTTLED:
            wait = self.faults.retry_after_seconds
            headers = {} if wait is None else {"Retry-After": f"{wait:g}"}
            return call.response(503, {"x-ms-error-code": "ServerBusy", **headers})
        if fault is Fault.FAILED_BEFORE:
            return call.response(500, {"x-ms-error-code": "InternalError"})
        try:
            response = call.response(*call.answer())
        except DfsError as e:
            response = call.response(e.status, {"x-ms-error-code": e.code, **e.headers})
        if fault is Fault.FAILED_AFTER:
            return call.response(500, {"x-ms-error-code": "OperationTimedOut"})
        if fault is Fault.LOST_ANSWER and request.transport is not None:
            request.transport.abort()
        return response


class Call:
    """One request: what it asks for, and its answer."""

    def __init__(self, server: DfsServer, request: web.BaseRequest, body: bytes) -> None:
        self.server = server
        self.method = request.method
        self.headers = request.headers
        self.body = body
        self.raw_path, _, query = request.raw_path.partition("?")
        self.pairs = decoded_query(query)
        self.query = dict(self.pairs)
        _, _, rest = self.raw_path.removeprefix("/").partition("/")
        self.container, _, path = rest.partition("/")
        self.path = unquote(path).strip("/")
        self.name = self._name()

    def _name(self) -> str:
        query = self.query
        if "x-ms-rename-source" in self.headers:
            return "rename"
        if query.get("restype") == "account":
            return "account"
        if query.get("restype") == "service":
            return "settings"
        if query.get("action") == "getAccessControl":
            return "acl"
        if query.get("resource") == "filesystem" and not self.path:
            return "list" if self.method == "GET" else f"{self.method} container"
        if dfs_blob.is_blob_call(self):
            return "blob"
        if self.method == "PUT":
            return f"create {query.get('resource', '')}".rstrip()
        return {"HEAD": "status", "GET": "read", "PATCH": "append"}.get(self.method, self.method.lower())

    def answer(self) -> Answer:
        """Do what is asked for; `DfsError` if it is refused."""
        self.server.account.check(self.method, self.raw_path, self.pairs, self.headers)
        if self.name in self.server.denied:
            raise DfsError(403, "AuthorizationPermissionMismatch")
        if self.name == "account":
            flag = str(self.server.hierarchical).lower()
            return 200, {"x-ms-is-hns-enabled": flag, "x-ms-sku-name": "Standard_LRS"}, b""
        if self._creates_container():
            if self.container in self.server.containers:
                raise DfsError(409, "FilesystemAlreadyExists")
            self.server.containers[self.container] = Tree()
            return 201, {"ETag": '"0x1"'}, b""
        if self.container not in self.server.containers:
            raise DfsError(404, "FilesystemNotFound")
        self.tree = self.server.containers[self.container]
        if self.name == "blob":
            return dfs_blob.answer(self)
        return self._on_path()

    def _creates_container(self) -> bool:
        kinds = self.query.get("restype"), self.query.get("resource")
        return (
            self.method == "PUT"
            and not self.path
            and kinds in (("container", None), (None, "filesystem"))
        )

    def _on_path(self) -> Answer:
        query, condition = self.query, self.headers.get("If-None-Match")
        match self.name:
            case "rename":
                node, token = self._rename()
                more = {"x-ms-continuation": token} if token else {}
                return 201, described(node, length=False) | more, b""
            case "list":
                return self._list()
            case "HEAD container":
                return 200, {"x-ms-namespace-enabled": str(self.server.hierarchical).lower()}, b""
            case "acl":
                if not self.server.hierarchical:
                    raise DfsError(400, "HierarchicalNamespaceNotEnabled")
                node = self.tree.get(self.path)
                rights = {"x-ms-owner": node.owner, "x-ms-group": node.group}
                rights |= {"x-ms-permissions": node.permissions}
                return (
                    200,
                    {**rights, "x-ms-acl": f"user::rwx,group::r-x,other::---{node.default_list}"},
                    b"",
                )
            case "create file" | "create directory":
                directory = query["resource"] == "directory"
                node = self.tree.create(
                    self.path, is_directory=directory, if_none_match=condition, mode=self._mode()
                )
                return 201, described(node, length=False), b""
            case "append":
                return self._append()
            case "status":
                return 200, described(self.tree.get(self.path)), b""
            case "read":
                return dfs_blob.content(self, self.tree.file(self.path))
            case "delete":
                token = self.tree.delete(
                    self.path,
                    recursive=query.get("recursive") == "true",
                    paginated=query.get("paginated") == "true",
                    continuation=query.get("continuation", ""),
                    if_match=self.headers.get("If-Match"),
                )
                status = (
                    200 if "recursive" in query else 202
                )  # as the blob service, which is asked alike
                return status, {"x-ms-continuation": token} if token else {}, b""
        raise DfsError(400, "UnsupportedQueryParameter")

    def _mode(self) -> str:
        """The mode of what is made, as text; the service has a umask of its own."""
        wanted, umask = (self.headers.get(f"x-ms-{name}") for name in ("permissions", "umask"))
        return stat.filemode(int(wanted or "0777", 8) & ~int(umask or "0027", 8))[1:]

    def _rename(self) -> tuple[Node, str]:
        container, path, query = split_source(self.headers["x-ms-rename-source"])
        if "sig" in self.query:
            self.server.account.check_sas(query)
        source = self.server.containers.get(container)
        if source is None:
            raise DfsError(404, "SourcePathNotFound")
        return self.tree.rename(
            (source, path.strip("/")),
            self.path,
            source_if_match=self.headers.get("x-ms-source-if-match"),
            if_match=self.headers.get("If-Match"),
            if_none_match=self.headers.get("If-None-Match"),
        )

    def _append(self) -> Answer:
        position = int(self.query["position"])
        if self.query["action"] == "flush":
            return 200, described(self.tree.flush(self.path, position), length=False), b""
        self.tree.append(self.path, position, self.body)
        if self.query.get("flush") != "true":
            return 202, {}, b""
        node = self.tree.flush(self.path, position + len(self.body))
        return 202, described(node, length=False), b""

    def _list(self) -> Answer:
        page, token = self.tree.list(
            self.query.get("directory", "").strip("/"),
            recursive=self.query["recursive"] == "true",
            limit=int(self.query.get("maxResults", 5000)),
            continuation=self.query.get("continuation", ""),
        )
        body = json.dumps({"paths": [_line(path, node) for path, node in page]}).encode()
        headers = {"Content-Type": "application/json;charset=utf-8"}
        return 200, {**headers, "x-ms-continuation": token} if token else headers, body

    def response(self, status: int, headers: dict[str, str], body: bytes = b"") -> web.Response:
        if status >= 400 and self.method != "HEAD":
            code = headers.get("x-ms-error-code", "")
            body = json.dumps({"error": {"code": code, "message": f"{code}."}}).encode()
            headers = {**headers, "Content-Type": "application/json;charset=utf-8"}
        common = {
            "x-ms-request-id": "a-request",
            "x-ms-version": self.headers.get("x-ms-version", ""),
            "Date": formatdate(usegmt=True),
        }
        return web.Response(status=status, headers={**common, **headers}, body=body or None)


def described(node: Node, *, length: bool = True) -> dict[str, str]:
    """The headers that describe a path, to the DFS client and to the blob client."""
    headers = {
        "ETag": f'"{node.etag}"',
        "Last-Modified": formatdate(node.modified, usegmt=True),
    }
    if length:
        headers |= {
            "Content-Length": str(len(node.data)),
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
            "x-ms-resource-type": "directory" if node.is_directory else "file",
            "x-ms-blob-type": "BlockBlob",
            "x-ms-creation-time": formatdate(node.modified, usegmt=True),
            "x-ms-server-encrypted": "true",
            "x-ms-lease-status": "unlocked",
            "x-ms-lease-state": "available",
        }
        if node.is_directory:
            headers["x-ms-meta-hdi_isfolder"] = "true"
    return headers


def _line(path: str, node: Node) -> dict[str, str]:
    line = {
        "name": path,
        "etag": node.etag,
        "contentLength": str(len(node.data)),
        "lastModified": formatdate(node.modified, usegmt=True),
        "creationTime": str(int(node.modified * 10_000_000)),
        "owner": node.owner,
        "group": node.group,
        "permissions": node.permissions,
    }
    return {**line, "isDirectory": "true"} if node.is_directory else line


def token(server: DfsServer, text: str, seconds: float = 3600.0) -> tuple[str, float]:
    """Let `text` be a valid bearer token for some seconds; returns it and when it expires."""
    server.account.tokens[text] = expires = time.time() + seconds
    return text, expires
