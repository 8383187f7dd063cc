"""Texts for people about paths of a store, which one function shows as URLs.

Who writes a text knows paths. The URL of the store, without which a path can be in several buckets, is
known where the text is shown. So each path is marked, wherever it is in the text, and the marks go with
the text into lists, errors and other texts, until `shown` replaces them.
"""

from __future__ import annotations

import re

_BEGIN, _END = "\ufdd0", "\ufdd1"  # no characters, by Unicode, so no name has them
_MARKED = re.compile(f"{_BEGIN}([^{_END}]*){_END}")


def mark(path: str) -> str:
    """Mark a path of the store for a text. What is marked already, or is no absolute path, stays."""
    return f"{_BEGIN}{path}{_END}" if path.startswith("/") else path


def paths_in(text: str) -> tuple[str, ...]:
    """Return the paths that are marked in a text, each once."""
    return tuple(dict.fromkeys(_MARKED.findall(text)))


def shown(text: str, store: str | None = None) -> str:
    """Return a text for a reader: each path is on the store with this URL, and is not quoted."""
    return _MARKED.sub(lambda found: f"{store or ''}{found[1]}", text)
