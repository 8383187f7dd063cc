"""Read how to commit a job from the Spark settings that a driver without Python sends."""

from __future__ import annotations

import msgspec

from ray_committer.errors import RayCommitterError
from ray_committer.events import EventSink
from ray_committer.options import CommitOptions
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.handler import HandlerSettings
from ray_committer.spark.job_options import job_executor, job_options
from ray_committer.spark.loaded_jar import JAR_PROTOCOL_VERSION


class _Request(msgspec.Struct, frozen=True):
    version: int
    conf: dict[str, str] = {}


def settings_of(request_json: str, on_event: EventSink) -> HandlerSettings:
    """Return the settings that the driver sent with a request; `RayCommitterError` names a wrong one."""
    try:
        request = msgspec.json.decode(request_json, type=_Request)
    except msgspec.DecodeError as e:
        raise RayCommitterError(
            f"the request does not come from a Spark driver ({e}); only Spark drivers use this command, "
            f"run `ray-committer commit DEST` instead"
        ) from e
    if request.version != JAR_PROTOCOL_VERSION:
        raise RayCommitterError(
            f"the driver's jar uses protocol version {request.version}, but this ray-committer uses "
            f"{JAR_PROTOCOL_VERSION}; give Spark the jar of this package"
        )
    conf = HadoopConf(request.conf)
    job_options(conf.settings, CommitOptions())  # finds a wrong setting before anything is done
    return HandlerSettings(
        executor=job_executor(conf.settings, "auto"),
        on_event=on_event,
        progress_seconds=0,
        configuration=lambda _: conf,
    )
