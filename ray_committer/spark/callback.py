"""The five methods that the driver's JVM can call in Python, protected by a secret of this installation.

Py4J's callback server listens on this machine without authentication. It calls any attribute of its
objects, by a number that is easy to guess. The object here therefore has no other attribute, cannot be
changed, and requires a secret with each request. Only the JVM gets the secret.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable

import msgspec

from ray_committer.spark.handler import CommitHandler

_log = logging.getLogger(__name__)

_REQUESTS = ("setupJob", "startWorkers", "loadTasks", "commitJob", "abortJob")
# Py4J reads the last two; a call of `__class__` makes another object like this one, just as closed.
_CALLABLE = frozenset({*_REQUESTS, "Java", "__class__"})
_REFUSAL = (
    "a request without the secret of this session was refused and changed nothing; Spark's own requests "
    "carry the secret: install the committer again, or find the other process that sends requests"
)


def new_secret() -> str:
    """Return a secret of 32 random bytes, as text."""
    return secrets.token_hex(32)


def callback(handler: CommitHandler, secret: str) -> object:
    """Return an ``io.raycommitter.PythonCallback`` that passes requests with `secret` to `handler`."""

    def answering(ask: Callable[[str], str]) -> Callable[[object, str, str], str]:
        def answer(_: object, given: str, request: str) -> str:
            # In constant time: every user of this machine can reach the port, and guess byte by byte.
            if isinstance(given, str) and hmac.compare_digest(given.encode(), secret.encode()):
                return ask(request)
            _log.warning("%s", _REFUSAL)
            return msgspec.json.encode({"error": _REFUSAL}).decode()

        return answer

    class Callback:
        __slots__ = ()

        # Not `__getattr__`: Py4J reads any name, and `__dict__` would lead to the handler.
        def __getattribute__(self, name: str) -> object:
            if name not in _CALLABLE:
                raise AttributeError(name)
            return object.__getattribute__(self, name)

        class Java:
            """Read by Py4J."""

            implements = ["io.raycommitter.PythonCallback"]

    for name in _REQUESTS:
        setattr(Callback, name, answering(getattr(handler, name)))
    return Callback()
