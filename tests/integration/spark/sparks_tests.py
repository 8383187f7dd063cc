"""Spark's own Python tests, run as they are, with or without our commit protocol in their sessions.

``python sparks_tests.py theirs|ours NAME ...`` runs modules, classes or tests by their names below
``pyspark.sql.tests``, in the home that `make_home` has made, and prints one JSON line: what became of
each test, and how many jobs we committed. PySpark's wheel has the tests in its archive for executors.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

PACKAGE = "pyspark.sql.tests"
PASSED = "passed"
_PEOPLE = [{"name": "Michael"}, {"name": "Andy", "age": 30}, {"name": "Justin", "age": 19}]
_QUOTED = ("Hi,\nI am Jeo", "My name is Tom", "I am Hyukjin\n\nI love Spark!")
_TEXTS = {
    "people.json": '{"name":"Michael"}\n{"name":"Andy", "age":30}\n{"name":"Justin", "age":19}\n',
    "people1.json": '{"name":"Jonathan"}\n',
    "people_array.json": json.dumps(_PEOPLE),
    "ages_newlines.csv": 'Joe,20,"{}"\nTom,30,"{}"\nHyukjin,25,"{}"\n'.format(*_QUOTED),
    "text-test.txt": "hello\nthis\n",
    "streaming/text-test.txt": "hello\nthis\n",
    "streaming/time/times.csv": "".join(f"2024-02-29 12:00:0{second};{second}\n" for second in range(7)),
}
"""The data that the tests read and the wheel lacks, made from what they expect of it."""


def make_home(home: Path) -> None:
    """Lay out `home` as the tests expect it of Spark's source tree, with the jars of the wheel."""
    installed = Path(importlib.util.find_spec("pyspark").origin).parent
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(installed / name)
    zipfile.ZipFile(installed / "python" / "lib" / "pyspark.zip").extractall(home / "python")
    data = home / "python" / "test_support" / "sql"
    (data / "streaming" / "time").mkdir(parents=True)
    for name, text in _TEXTS.items():
        (data / name).write_text(text)
    (data / "people_array_utf16le.json").write_text(json.dumps(_PEOPLE[1:]), "utf-16-le")
    for number in range(2):
        partition = data / "orc_partitioned" / f"b={number}" / f"c={number}"
        partition.mkdir(parents=True)
        orc.write_table(pa.table({"a": [number]}), partition / "one.orc")


def tests_in(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_in(one)
        else:
            yield one


def outcomes_of(suite: unittest.TestSuite) -> dict[str, str]:
    """Run the tests; what became of each, by its name below the package."""
    outcomes = {test.id(): PASSED for test in tests_in(suite)}
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(suite)
    outcomes |= {test.id(): "skipped" for test, _ in result.skipped}
    outcomes |= {test.id(): text[-2000:] for test, text in result.errors + result.failures}
    return {name.removeprefix(f"{PACKAGE}."): outcome for name, outcome in outcomes.items()}


def install_in_each_context() -> list[Any]:
    """Install our handler with the first session of each context; the list fills with installations."""
    from pyspark.sql import SparkSession

    from ray_committer.spark import install

    made: list[Any] = []
    begin = SparkSession.__init__

    def begin_and_install(session: Any, context: Any, *arguments: Any, **more: Any) -> None:
        begin(session, context, *arguments, **more)
        if all(one.spark.sparkContext is not context for one in made):
            made.append(install(session, executor="threads"))

    SparkSession.__init__ = begin_and_install
    return made


def main() -> None:
    who, *names = sys.argv[1:]
    installations = install_in_each_context() if who == "ours" else []
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"{PACKAGE}.{name}" for name in names])
    outcomes = outcomes_of(suite)
    commits = sum(one.handler.commits for one in installations)
    print(json.dumps({"outcomes": outcomes, "commits": commits}))


if __name__ == "__main__":
    main()
