"""What a network answers in place of a store: a login page, nothing, the half of an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers.proxy import Fault, Harm, Request

_HTML = {"Content-Type": "text/html; charset=utf-8"}
_JSON = {"Content-Type": "application/json"}

PAGES = {
    "login page": (_HTML, b"<html><body>Log in to the network</body></html>"),
    "page of no kind": ({}, b"<html><body>Log in to the network</body></html>"),
    "nothing": (_JSON, b""),
    "half": (_JSON, b'{"items": [{"na'),
    "other JSON": (_JSON, b"[]"),
    "not UTF-8": (_JSON, b'"\xff"'),
}

every_page = pytest.mark.parametrize("page", PAGES)
one_page = pytest.mark.parametrize(
    "page",
    [pytest.param(one, marks=() if one == "other JSON" else (pytest.mark.wide,)) for one in PAGES],
)
"""In `make test` the one that no header gives away."""


def page_fault(
    page: str,
    matches: Callable[[Request], bool] = lambda _: True,
    *,
    probability: float = 1.0,
    times: int | None = None,
) -> Fault:
    """The fault by which a request is answered with status 200, and is not done."""
    headers, body = PAGES[page]
    return Fault(Harm.REFUSE, matches, probability, times, status=200, body=body, headers=headers)
