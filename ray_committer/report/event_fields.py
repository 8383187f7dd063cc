"""Events as plain values, with the names in ``docs/events.md``."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import msgspec

from ray_committer.events import Event


def event_fields(event: Event) -> dict[str, Any]:
    """An event as values for JSON: its name, such as ``files_renamed``, and its fields."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"event": event_name(type(event)), **msgspec.to_builtins(values)}


def event_name(kind: type[Event]) -> str:
    """The name of an event class: ``FilesRenamed`` is ``files_renamed``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
