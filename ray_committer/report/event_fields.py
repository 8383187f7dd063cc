"""Events as plain values, by the names that ``docs/events.md`` gives them."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import msgspec

from ray_committer.events import Event


def event_fields(event: Event) -> dict[str, Any]:
    """An event as what JSON can hold: its name, as ``files_renamed``, and its fields."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"event": event_name(type(event)), **msgspec.to_builtins(values)}


def event_name(kind: type[Event]) -> str:
    """The name of a class of events: ``FilesRenamed`` is ``files_renamed``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
