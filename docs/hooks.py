"""What the site adds to the pages: in errors.md, the labels of each error are bold.

The page itself has them plain, because ``ray-committer explain`` prints its text.
"""

from __future__ import annotations

import re
from typing import Any

LABEL = re.compile(r"^- (Data|Next|Causes|More): ", re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page as MkDocs is to render it."""
    return LABEL.sub(r"- **\1:** ", markdown) if page.file.src_uri == "errors.md" else markdown
