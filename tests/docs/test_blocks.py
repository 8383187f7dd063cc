"""Every fenced block of the pages is run by a test, or listed with what keeps it from that."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib

import click
import pytest

from tests.cli.commands import COMMANDS
from tests.docs import ways
from tests.docs.blocks import ROOT, all_blocks, pages

BLOCKS = all_blocks()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_block_is_run_or_listed_with_a_reason():
    listed = ways.all_names()
    assert sorted(listed) == sorted(set(listed)), "a block is listed twice"
    assert sorted(BLOCKS.keys() - set(listed)) == [], "neither run nor listed in tests/docs/ways.py"
    assert sorted(set(listed) - BLOCKS.keys()) == [], "listed in tests/docs/ways.py, and in no page"


@pytest.mark.parametrize("name", [name for name in BLOCKS if BLOCKS[name].language == "python"])
def test_python_is_python(name: str):
    compile(BLOCKS[name].text, name, "exec")


@pytest.mark.parametrize(
    "name", [one for one in BLOCKS if BLOCKS[one].language == "" and one != ways.LOGGING]
)
def test_every_command_of_ours_has_the_options_that_are_printed(name: str):
    for words in commands(name):
        if words[:1] == ["ray-committer"]:
            command, words = COMMANDS[words[1]], words[1:]
            while isinstance(command, click.Group):
                command, words = command.commands[words[1]], words[1:]
            known = {option for parameter in command.params for option in parameter.opts}
            named = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
            assert named - known == set(), f"`ray-committer {words[0]}` has no such options"


def commands(name: str) -> list[list[str]]:
    """The words of each command of a block, of usage without brackets."""
    text = BLOCKS[name].text
    if name in ways.SYNOPSES:
        text = re.sub(r"[\[\]|]|\.\.\.", " ", text)
    text = re.sub(r"^export .*\n", "", text, flags=re.MULTILINE)
    return [shlex.split(line) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("name", [name for name, why in ways.NOT_RUN.items() if why == ways.INSTALLS])
def test_what_is_to_be_installed_has_such_extras(name: str):
    for words in commands(name):
        assert words[:2] == ["pip", "install"]
        extras = re.fullmatch(r"ray-committer\[(.*)\]", words[2])
        assert extras, words[2]
        assert set(extras[1].split(",")) <= PROJECT["optional-dependencies"].keys()


def test_targets_of_make_are_there():
    blocks = ("README.md: Two commands", "README.md: In a minute", "docs/index.md: Install")
    made = [words for name in blocks for words in commands(name) if words[0] == "make"]
    assert len(made) == 4
    for words in made:
        subprocess.run([*words, "--dry-run"], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_test_that_a_page_names_is_there(page):
    text = page.read_text()
    for path, test in re.findall(r"`((?:tests|benchmarks|docs)/[\w/.-]+?)(?:::(\w+))?[`\s]", text):
        assert (ROOT / path).exists(), f"{path} is named and not there"
        if test:
            assert f"def {test}(" in (ROOT / path).read_text(), f"{path} has no {test}"


def test_links_of_the_readme_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", (ROOT / "README.md").read_text()):
        path, _, anchor = target.partition("#")
        assert (ROOT / path).exists(), target
        headings = (
            re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), flags=re.MULTILINE) if anchor else []
        )
        assert not anchor or anchor in [slug(heading) for heading in headings], target


def slug(heading: str) -> str:
    """A heading as GitHub and mkdocs turn it into an anchor."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
