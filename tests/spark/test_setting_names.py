"""The jar has the names of the settings that it reads from the table of options."""

from __future__ import annotations

import os
from pathlib import Path

from ray_committer.options import SPARK_ALONE
from ray_committer.options.settings import SPARK_PREFIX

SOURCES = Path(__file__).parents[2] / "ray_committer/spark/java/src/io/raycommitter"
NAMES = SOURCES / "SettingNames.java"


def test_the_jar_has_the_names_of_the_table():
    """``RAY_COMMITTER_TEST_GOLDEN=write`` writes them."""
    if os.environ.get("RAY_COMMITTER_TEST_GOLDEN") == "write":
        NAMES.write_text(java())
    assert NAMES.read_text() == java()


def java() -> str:
    constants = "".join(
        f'    static final String {row.name.upper()} = PREFIX + "{row.name}";\n' for row in SPARK_ALONE
    )
    return f'''package io.raycommitter;

/** The names of our settings that are no options of a commit; a test writes them, from their table. */
final class SettingNames {{
    static final String PREFIX = "{SPARK_PREFIX}";
{constants}
    private SettingNames() {{}}
}}
'''


def test_no_other_class_has_the_name_of_a_setting():
    named = {path.name for path in SOURCES.glob("*.java") if SPARK_PREFIX in path.read_text()}
    assert named == {NAMES.name}
