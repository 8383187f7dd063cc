"""The commands of docs/records/README.md run as printed, with the URL of a database of the tests."""

from __future__ import annotations

import shlex

import pytest

from tests.cli.commands import run
from tests.docs.blocks import all_blocks
from tests.records.places import PAGE_URL, Place
from tests.records.test_commit import recorded

pytestmark = pytest.mark.xdist_group("postgresql")


def test_the_commands_run_as_printed(place: Place):
    recorded(place, 1, 2)
    other = {PAGE_URL: place.url, "public.orders": place.table}
    for line in all_blocks()["docs/records/README.md: Interrupted jobs"].text.splitlines():
        words = [other.get(word, word) for word in shlex.split(line)]
        assert words[0] == "ray-committer"
        done = run(*words[1:])
        assert done.exit_code == 0, done.output
    assert (place.ids(), place.staging()) == ([1, 2], [])
