"""Canned answers of a bucket with a hierarchical namespace, which no server outside Google has.

Written from the API's reference, so a test with it shows what our requests are, not what Google answers.
"""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qsl, unquote

from tests.servers.gcs import JSON, MOVE, UPLOAD, MoveTo, failure
from tests.servers.proxy import Answer, Request, Send

_FOLDERS = re.compile(r"/storage/v1/b/(?P<bucket>[^/?]+)/folders(?:/(?P<folder>[^/?]+))?")
_OBJECTS = re.compile(r"/storage/v1/b/[^/?]+/o")


class Folders:
    """`Answerer` of folders, in front of `MoveTo`; of one bucket. `folders` are those that are there."""

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self._objects = MoveTo()

    async def __call__(self, request: Request, send: Send) -> Answer:
        path, _, query = request.path.partition("?")
        asked = dict(parse_qsl(query))
        if path.endswith("/storageLayout"):
            return _answer({"hierarchicalNamespace": {"enabled": True}})
        if found := _FOLDERS.fullmatch(path):
            return await self._folder(request, found, asked, send)
        answer = await self._objects(request, send)
        if answer.status != 200:
            return answer
        if request.method == "POST" and (move := MOVE.fullmatch(path)):
            self._make_above(unquote(move["dest"]))
        if request.method == "POST" and UPLOAD.fullmatch(path):
            self._make_above(asked["name"])
        if asked.get("includeFoldersAsPrefixes") == "true" and _OBJECTS.fullmatch(path):
            return self._with_folders(answer, asked["prefix"])
        return answer

    def _make_above(self, name: str) -> None:
        parts = name.split("/")[:-1]
        self.folders |= {"/".join(parts[: n + 1]) + "/" for n in range(len(parts))}

    async def _folder(
        self, request: Request, found: re.Match[str], asked: dict[str, str], send: Send
    ) -> Answer:
        if found["folder"] is None:
            return self._create_or_list(request, asked)
        name = unquote(found["folder"])
        if name not in self.folders:
            return failure(404, f"No such folder: {name}")
        if request.method == "DELETE":
            objects = await send(
                Request(
                    "GET", f"/storage/v1/b/{found['bucket']}/o?prefix={found['folder']}&maxResults=1"
                )
            )
            below = any(one != name and one.startswith(name) for one in self.folders)
            if below or json.loads(objects.body).get("items"):
                return failure(409, "The folder you tried to delete is not empty.")
            self.folders.remove(name)
        return _answer({"name": name})

    def _create_or_list(self, request: Request, asked: dict[str, str]) -> Answer:
        if request.method == "GET":
            found = sorted(one for one in self.folders if one.startswith(asked["prefix"]))
            first = found.index(asked["pageToken"]) if "pageToken" in asked else 0
            page = {"items": [{"name": one} for one in found[first : first + 2]]}
            more = {"nextPageToken": found[first + 2]} if len(found) > first + 2 else {}
            return _answer({**page, **more})
        name = json.loads(request.body)["name"]
        above = name[:-1].rpartition("/")[0] + "/"
        if name in self.folders:
            return failure(409, "The folder already exists.")
        if asked.get("recursive") != "true" and above != "/" and above not in self.folders:
            return failure(404, "The parent folder does not exist.")
        self._make_above(name)
        return _answer({"name": name})

    def _with_folders(self, answer: Answer, prefix: str) -> Answer:
        page = json.loads(answer.body)
        below = {one for one in self.folders if one.startswith(prefix) and one != prefix}
        direct = {prefix + one[len(prefix) :].partition("/")[0] + "/" for one in below}
        page["prefixes"] = sorted({*page.get("prefixes", ()), *direct})
        return _answer(page)


def _answer(value: object) -> Answer:
    return Answer(200, JSON, json.dumps(value).encode())
