"""What the driver's JVM may call in Python: four methods, with the secret of this installation.

Py4J's callback server listens on this machine, asks nobody who he is, and calls any attribute of the
objects that it was given by a number that is easily guessed. So what it is given here has no other
attribute, nothing that can be set, and wants a secret with each request, which the JVM alone was told.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable

import msgspec

from ray_committer.spark.handler import CommitHandler

_log = logging.getLogger(__name__)

# Py4J looks at the last two; to call `__class__` makes another object like this one, which is as closed.
_CALLABLE = frozenset({"setupJob", "startWorkers", "commitJob", "abortJob", "Java", "__class__"})
_REFUSAL = (
    "a request without the secret of this session was refused; nothing was done. Spark's own requests "
    "bring it: install the committer again, or find out who else on this machine asks"
)


def new_secret() -> str:
    """A secret of 32 bytes, as text."""
    return secrets.token_hex(32)


def callback(handler: CommitHandler, secret: str) -> object:
    """An ``io.raycommitter.PythonCallback`` that passes requests with this `secret` on to `handler`."""

    def answer(given: str, ask: Callable[[str], str], request: str) -> str:
        if isinstance(given, str) and hmac.compare_digest(given.encode(), secret.encode()):
            return ask(request)
        _log.warning("%s", _REFUSAL)
        return msgspec.json.encode({"error": _REFUSAL}).decode()

    class Callback:
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            if name not in _CALLABLE:
                raise AttributeError(name)
            return object.__getattribute__(self, name)

        def setupJob(self, given: str, request: str) -> str:  # noqa: N802 - the name in Java
            return answer(given, handler.setupJob, request)

        def startWorkers(self, given: str, request: str) -> str:  # noqa: N802 - the name in Java
            return answer(given, handler.startWorkers, request)

        def commitJob(self, given: str, request: str) -> str:  # noqa: N802 - the name in Java
            return answer(given, handler.commitJob, request)

        def abortJob(self, given: str, request: str) -> str:  # noqa: N802 - the name in Java
            return answer(given, handler.abortJob, request)

        class Java:
            """Read by Py4J."""

            implements = ["io.raycommitter.PythonCallback"]

    return Callback()
