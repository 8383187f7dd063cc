"""docs/errors.md has a section for each id, with the class and the exit code that it really has.

``ray-committer explain`` prints each of them.
"""

from __future__ import annotations

import re

import pytest

from ray_committer import errors
from ray_committer.cli.errors import BUG_ID, error_id, exit_code
from ray_committer.cli.explain import error_pages
from tests.cli.commands import run
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S+)\n\n(.+?)(?=\n## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
EXPLAINED = error_pages(PAGE)
CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}


def test_each_class_has_its_own_id():
    assert len(CLASSES) > 30
    ids = [vars(kind)["id"] for kind in CLASSES.values()]
    assert len(set(ids)) == len(ids)
    assert [one for one in ids if not re.fullmatch(r"RC(-[a-z]+)+", one)] == []


def test_each_id_has_one_section_and_each_section_an_id():
    ids = [*(kind.id for kind in CLASSES.values()), BUG_ID]
    assert sorted(re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE)) == sorted(ids)


@pytest.mark.parametrize("name", CLASSES)
def test_a_section_names_the_class_and_its_exit_code(name: str):
    error = CLASSES[name]("/a", "is wrong") if name == "StoreUnavailableError" else CLASSES[name]("/a")
    section = SECTIONS[error_id(error)]
    assert re.search(rf"^- `{name}`", section, flags=re.MULTILINE)
    assert re.findall(r"exit code (\d)\b", section)[0] == str(exit_code(error, "status"))


WORDS = {
    errors.UNCHANGED: r"safe: |look: .*(changed|visible)",
    errors.NOT_DONE: r"safe: nothing was done",
    errors.PARTLY: r"safe, not complete: ",
    errors.UNKNOWN: r"safe, not complete: |look: ",
    errors.NOT_REPLACED: r"safe",
    errors.DIFFERENT: r"look: ",
}
"""How a section may begin to speak of the data, by what its class promises."""


@pytest.mark.parametrize("name", [name for name, kind in CLASSES.items() if hasattr(kind, "promise")])
def test_a_section_says_of_the_data_what_the_class_promises(name: str):
    kind = CLASSES[name]
    assert re.match(WORDS[kind.promise], EXPLAINED[kind.id].data)


def test_the_page_for_programs_names_the_classes_of_each_exit_code():
    """All that are not named have the first one, so an error that changes nothing has no place there."""
    page = (ROOT / "docs" / "python_api.md").read_text()
    rows = re.findall(r"^\| (\d) \| [^|]+ \| ([^|]+) \|", page, flags=re.MULTILINE)
    named = {name: int(code) for code, cell in rows for name in re.findall(r"`(\w+)`", cell)}
    for kind in CLASSES.values():
        codes = [named[base.__name__] for base in kind.__mro__ if base.__name__ in named]
        assert (codes or [1])[0] == getattr(kind, "exit_code", 1), kind


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_says_whether_the_data_is_safe_and_what_to_do_next(section: str):
    labels = re.findall(r"^- (Data|Next|Causes|More): ", SECTIONS[section], flags=re.MULTILINE)
    assert labels[:2] == ["Data", "Next"]
    data, following = EXPLAINED[section].data, EXPLAINED[section].next
    assert re.match(r"safe: |safe, not complete: |look: ", data)
    assert re.search(r"`ray-committer \w+|the same command|the application again", following)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_command_explains_each_section_as_plain_text(name: str):
    text = run("explain", name.removeprefix("RC-")).stdout
    assert text.startswith(f"{name}\n  Means")
    assert [line.split()[0] for line in text.splitlines()[1:] if line[2] != " "][1:3] == ["Data", "Next"]
    assert re.search(r"\]\(|#|\xa0", text) is None
    said = " ".join(text.split())
    assert all(" ".join(code.split()) in said for code in re.findall(r"`[^`]+`", SECTIONS[name]))
