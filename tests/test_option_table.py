"""A row of the table is all that an option needs: what shows or reads options is made from it."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs import settings as page
from ray_committer import CommitOptions, commit_job
from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.errors import SettingsError
from ray_committer.options import SPARK_ALONE
from ray_committer.options.settings import Group, Repeat, Setting, option, table
from ray_committer.options.texts import TIME

PACKAGE = Path(inspect.getfile(CommitOptions)).parents[1]


@table
@dataclass(frozen=True, kw_only=True)
class WithNap(CommitOptions):
    """The options of a commit, and one more."""

    nap_seconds: float = option(
        3.0,
        TIME,
        "How long to nap.",
        least=1,
        group=Group.TUNING,
        repeat=Repeat.ALWAYS,
        page="naps.md",
    )


NAPS = WithNap(nap_seconds=90)


def test_python_has_it_with_its_default_its_least_value_and_its_help():
    assert WithNap().nap_seconds == 3
    assert replace(NAPS, threads=7).over(WithNap(nap_seconds=2)) == WithNap(nap_seconds=90, threads=7)
    with pytest.raises(ValueError, match=r"^WithNap\.nap_seconds must be at least 1 seconds, not 0"):
        WithNap(nap_seconds=0)
    assert (WithNap.__doc__ or "").endswith("\n    nap_seconds: How long to nap.\n")


@pytest.mark.parametrize("key", ["RAY_COMMITTER_NAP_SECONDS", "spark.ray_committer.nap_seconds"])
def test_the_environment_and_spark_have_it(key: str):
    read = WithNap.from_env if key.isupper() or key[0] == "R" else WithNap.from_spark_conf
    assert read({key: "90s"}) == NAPS
    with pytest.raises(SettingsError, match=f"^{key}=0: must be at least 1"):
        read({key: "0"})
    with pytest.raises(SettingsError, match=r"did you mean nap_seconds\?"):
        read({key.replace("P_", "_").replace("p_", "_"): "1"})


def test_the_command_line_has_it_in_its_group():
    found: list[CommitOptions] = []

    @click.command(cls=Command)
    @shared.at_store(of=WithNap, has_output=False)
    def probe(how: shared.How) -> None:
        found.append(how["options"])

    result = CliRunner().invoke(probe, ["--nap-seconds", "90s"], catch_exceptions=False)
    assert (result.exit_code, found) == (0, [NAPS])
    text = CliRunner(env={"COLUMNS": "200"}).invoke(probe, ["--help"]).stdout
    shown = "How long to nap.  [default: 3]  [env var: RAY_COMMITTER_NAP_SECONDS]"
    assert " ".join(shown.split()) in " ".join(text.partition("Tuning:")[2].split())


def test_the_page_of_options_has_it():
    *_, row = page.options(WithNap)
    about = "How long to nap. ([more](naps.md))"
    assert row == ("`spark.ray_committer.nap_seconds`", TIME.meaning, "`3`", about)


def test_the_report_has_it_and_the_command_that_runs_the_commit_again(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    report = commit_job(str(dest), executor="inline", options=NAPS)
    assert report.options == {"nap_seconds": "90"}
    assert report.command.endswith(" --nap-seconds 90")


OF_A_COMMAND = ("at_store", "setting")
ELSEWHERE = {
    "__init__.py": {"export_delta"},  # a function
    "cli/demo.py": {"--expect-tasks", "--max-requests-per-second"},
    "cli/table.py": {"export-delta", "job_attempt"},  # a command, and in a document
    "job_files/commands.py": {"--attempt", "--allowed-root", "export-delta"},
    "jobs/list_jobs.py": {"--expect-tasks"},
    "protocol/paths.py": {"run_id"},  # in a path
    "protocol/success.py": {"run_id"},  # in a document
    "report/command.py": {"--attempt", "--expect-tasks"},
    "spark/hadoop/keys.py": {"mark_success", "summary_directory"},  # what Hadoop's key sets
    "stores/s3/arrow.py": {"session_token"},  # PyArrow's
}
"""Where the text of a name stands that acts on an option, prints a command, or means something else."""


def test_the_name_of_an_option_stands_only_in_the_table_and_where_it_acts():
    names = {name for row in (*CommitOptions.rows.values(), *SPARK_ALONE) for name in texts_of(row)}
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).as_posix()
        if place != "options/__init__.py":
            found[place] = names.intersection(constants(ast.parse(path.read_text())))
    assert {place: some for place, some in found.items() if some} == ELSEWHERE


def texts_of(row: Setting) -> Iterator[str]:
    """The texts that are the name of an option, if nothing else has them."""
    yield from (row.spark_key, row.variable)
    if "_" in row.name:
        yield from (row.name, row.name.replace("_", "-"))
    if row.kind is not None:
        yield from (f"--{row.spelled}", f"--no-{row.spelled}")


def constants(tree: ast.AST) -> Iterator[str]:
    """All texts, but for those by which a command says which of the options it has."""
    for node in ast.iter_child_nodes(tree):
        called = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
        named = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in (
            "REQUESTS",
            "_SETTINGS",
        )
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif not named and called not in OF_A_COMMAND:
            yield from constants(node)
