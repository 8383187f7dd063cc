"""How a job is committed when its driver, which has no Python, can only say so in Spark's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from ray_committer.errors import RayCommitterError
from ray_committer.events import EventSink
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.spark.handler import HandlerSettings
from ray_committer.spark.session import JAR_PROTOCOL_VERSION

PREFIX = "spark.ray_committer."

_TRUTH = {"true": True, "false": False}
_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "threads": int,
    "workers": int,
    "max_requests_per_second": float,
    "durable": lambda text: _TRUTH[text.lower()],
}


class _Request(msgspec.Struct, frozen=True):
    version: int
    conf: dict[str, str] = {}


def settings_of(request_json: str, on_event: EventSink) -> HandlerSettings:
    """The settings that the driver sent with a request; `RayCommitterError` names one that is wrong."""
    try:
        request = msgspec.json.decode(request_json, type=_Request)
    except msgspec.DecodeError as e:
        raise RayCommitterError(
            f"the request is not one of a Spark driver ({e}); this command is not for people, use "
            f"`ray-committer commit DEST`"
        ) from e
    if request.version != JAR_PROTOCOL_VERSION:
        raise RayCommitterError(
            f"the driver's jar speaks version {request.version}, this ray-committer "
            f"{JAR_PROTOCOL_VERSION}; give Spark the jar of this package"
        )
    return HandlerSettings(
        executor=_executor(request.conf), options=_options(request.conf), on_event=on_event
    )


def _executor(conf: Mapping[str, str]) -> ExecutorName:
    name: Any = conf.get(PREFIX + "executor", "auto")
    if name not in get_args(ExecutorName):
        raise _wrong("executor", name, f"one of {', '.join(get_args(ExecutorName))}")
    executor: ExecutorName = name
    return executor


def _options(conf: Mapping[str, str]) -> CommitOptions:
    options: dict[str, Any] = {}
    for name, parse in _OPTIONS.items():
        text = conf.get(PREFIX + name)
        if text is not None:
            try:
                options[name] = parse(text)
            except (ValueError, KeyError) as e:
                raise _wrong(name, text, "a value of its kind") from e
    try:
        return CommitOptions(**options)
    except ValueError as e:
        raise RayCommitterError(f"{PREFIX}*: {e}") from e


def _wrong(name: str, text: str, wanted: str) -> RayCommitterError:
    return RayCommitterError(f"{PREFIX}{name}={text}: is not {wanted}; set it to one")
