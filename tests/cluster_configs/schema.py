"""Strict JSON schemas of what others define, as far as the configurations use it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema

_SCHEMAS = Path(__file__).parent / "schemas"


def schema_problems(value: Mapping[str, Any], name: str) -> Iterator[str]:
    """Where `value` is not what the schema of this name says, and why."""
    schema = json.loads((_SCHEMAS / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for error in jsonschema.Draft202012Validator(schema).iter_errors(value):
        yield f"{error.json_path}: {error.message}"
