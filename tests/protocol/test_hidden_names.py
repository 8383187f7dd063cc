"""The names that are not data, by the examples that the Java classes are also tested with."""

from __future__ import annotations

import json
from pathlib import Path

from ray_committer.protocol.hidden_names import is_hidden, is_of_file_system, is_passed_over

EXAMPLES = Path(__file__).parents[1] / "data" / "hidden_names.json"


def test_each_example_is_read_committed_and_replaced_as_it_says():
    examples = json.loads(EXAMPLES.read_text())
    found = [
        {
            "path": (path := example["path"]),
            "has_rows": not is_hidden(path),
            "is_output": not is_passed_over(path),
            "is_of_file_system": is_of_file_system(path.rpartition("/")[2]),
        }
        for example in examples
    ]
    assert found == examples
