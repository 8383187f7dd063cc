"""What the doctor says of Spark, read from the files of an installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.promises.lines import Verdict
from ray_committer.promises.spark_lines import examine_spark, file_names
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY


def installation(root: Path, *jars: str, settings: str = "") -> Path:
    for directory in ("jars", "conf"):
        (root / directory).mkdir()
    for jar in jars:
        (root / "jars" / jar).write_bytes(b"")
    (root / "conf" / "spark-defaults.conf").write_text(settings)
    return root


@pytest.mark.parametrize(
    ("jar", "spark", "committer_jar"),
    [
        ("spark-core_2.12-3.5.7.jar", Verdict.OK, Verdict.OK),
        ("spark-core_2.13-3.5.1.jar", Verdict.OK, Verdict.OK),
        ("spark-core_2.13-4.1.0-preview1.jar", Verdict.OK, Verdict.OK),
        ("spark-core_2.12-3.4.4.jar", Verdict.WARNING, Verdict.OK),
        ("spark-core_2.13-5.0.0.jar", Verdict.WARNING, Verdict.OK),
        ("spark-core_2.11-2.4.8.jar", Verdict.WARNING, Verdict.FAILED),
        ("spark-core_3-4.0.0.jar", Verdict.WARNING, Verdict.OK),
        ("other.jar", Verdict.WARNING, Verdict.OK),
    ],
)
def test_the_version_and_scala_of_spark_are_judged(tmp_path: Path, jar: str, spark, committer_jar):
    lines = {one.name: one for one in examine_spark(installation(tmp_path, jar))}
    assert (lines["spark"].verdict, lines["committer jar"].verdict) == (spark, committer_jar)


def test_the_versions_are_named(tmp_path: Path):
    home = installation(tmp_path, "spark-core_2.12-3.5.7.jar", "hadoop-client-api-3.3.4.jar")
    assert f"Spark 3.5.7 with Scala 2.12, Hadoop 3.3.4, at {home}" in examine_spark(home)[0].measured


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("", "Spark's own committer is used until"),
        (f"# {PROTOCOL_KEY} {PROTOCOL_CLASS}\n", "Spark's own committer is used until"),
        (f"{PROTOCOL_KEY} {PROTOCOL_CLASS}\n", "every session of this Spark uses ray_committer"),
        (f"{PROTOCOL_KEY}={PROTOCOL_CLASS}", "every session of this Spark uses ray_committer"),
        (f"{PROTOCOL_KEY}   org.example.Other", "org.example.Other ("),
    ],
)
def test_who_commits_by_default_is_said(tmp_path: Path, monkeypatch, settings: str, text: str):
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    home = installation(tmp_path, "spark-core_2.12-3.5.7.jar", settings=settings)
    lines = {one.name: one for one in examine_spark(home)}
    assert text in lines["committer"].measured
    assert lines["committer"].verdict is Verdict.OK


def test_the_settings_of_another_directory_count(tmp_path: Path, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "spark-defaults.conf").write_text(f"{PROTOCOL_KEY} {PROTOCOL_CLASS}")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "own"))
    lines = examine_spark(installation(tmp_path / "home", "spark-core_2.12-3.5.7.jar"))
    assert "every session" in lines[2].measured


@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        (f"{PROTOCOL_KEY}\t{PROTOCOL_CLASS}", True),
        (f"{PROTOCOL_KEY} : {PROTOCOL_CLASS}", True),
        (f"  {PROTOCOL_KEY}={PROTOCOL_CLASS}  ", True),
        (f"{PROTOCOL_KEY} other\n{PROTOCOL_KEY} {PROTOCOL_CLASS}", True),
        (f"{PROTOCOL_KEY} {PROTOCOL_CLASS}\n{PROTOCOL_KEY} other", False),
        (f"# {PROTOCOL_KEY} {PROTOCOL_CLASS}\n{PROTOCOL_KEY}", False),
    ],
)
def test_settings_are_read_as_java_does(tmp_path: Path, settings: str, bound: bool):
    lines = examine_spark(installation(tmp_path, "spark-core_2.12-3.5.7.jar", settings=settings))
    assert ("every session" in lines[2].measured) is bound


def test_spark_home_goes_before_the_installed_package(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(installation(tmp_path, "spark-core_2.12-3.5.9.jar")))
    assert "Spark 3.5.9" in examine_spark()[0].measured


def test_a_machine_without_spark_is_a_note(monkeypatch):
    import importlib.util

    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    first, *rest = examine_spark()
    assert (first.verdict, first.measured) == (Verdict.NOTE, "not used: PySpark is not installed here")
    assert [one.verdict for one in rest] == [Verdict.NOTE]


def test_the_installed_spark_is_found(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    verdicts = [one.verdict for one in examine_spark() if one.name != "file names"]
    assert verdicts == [Verdict.OK, Verdict.OK, Verdict.OK, Verdict.NOTE]


@pytest.mark.parametrize(
    ("variables", "verdict", "measured"),
    [
        ({"LC_ALL": "C.UTF-8"}, Verdict.OK, "find all names"),
        ({"LANG": "C.UTF-8"}, Verdict.OK, "find all names"),
        ({}, Verdict.WARNING, "ANSI_X3.4-1968 names of local files"),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, Verdict.WARNING, "ANSI_X3.4-1968 names of local files"),
        ({"LANG": "xx_YY.UTF-8"}, Verdict.WARNING, "ANSI_X3.4-1968"),  # not on this machine
    ],
)
def test_the_locale_of_a_jvm_is_judged_before_python_corrects_it(
    variables: dict[str, str], verdict: Verdict, measured: str
):
    line = file_names(variables)
    assert (line.verdict, measured in line.measured) == (verdict, True)


def test_the_names_of_files_are_a_line(tmp_path: Path):
    lines = {one.name for one in examine_spark(installation(tmp_path, "spark-core_2.12-3.5.7.jar"))}
    assert "file names" in lines
