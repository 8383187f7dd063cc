"""cluster_configs/Dockerfile as Docker's own parser reads it, with the defaults of its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dockerfile import Command, all_cmds, parse_string

from tests.cluster_configs.pins import CONFIGS

PATH = CONFIGS / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Stage:
    """A target: the image that it begins with, and its instructions after that."""

    image: str
    instructions: tuple[tuple[str, tuple[str, ...]], ...]

    def of(self, kind: str) -> list[tuple[str, ...]]:
        """The words of each instruction of a kind, such as ``COPY``."""
        return [words for found, words in self.instructions if found == kind]


def stages(text: str) -> dict[str, Stage]:
    """The targets by name; `ValueError` for an instruction that Docker does not know."""
    given: dict[str, str] = {}
    found: dict[str, Stage] = {}
    name = ""
    for command in parse_string(text):
        kind, words = command.cmd.upper(), tuple(_filled(word, given) for word in command.value)
        if command.cmd.lower() not in all_cmds():
            raise ValueError(f"{command.original}: is no instruction")
        if kind == "ARG":
            key, _, default = words[0].partition("=")
            given[key] = default
        elif kind == "FROM":
            image, _as, name = words
            found[name] = Stage(image, ())
        else:
            found[name] = _with(found[name], command, words)
    return found


def image_of(target: str) -> str:
    """The image that a target begins with."""
    return stages(PATH.read_text())[target].image


def run_lines(target: str) -> list[str]:
    """The lines for the shell of a target's ``RUN``."""
    return [" ".join(words) for words in stages(PATH.read_text())[target].of("RUN")]


def sources(context: Path, target: str) -> dict[str, list[Path]]:
    """What each source of ``COPY`` finds in the directory of a build."""
    copied = stages(PATH.read_text())[target].of("COPY")
    return {source: sorted(context.glob(source)) for *words, _ in copied for source in words}


def _with(stage: Stage, command: Command, words: tuple[str, ...]) -> Stage:
    return Stage(stage.image, (*stage.instructions, (command.cmd.upper(), words)))


def _filled(word: str, given: Mapping[str, str]) -> str:
    """A word with the arguments that are known; others are variables of the shell."""
    return re.sub(r"\$\{(\w+)\}", lambda one: given.get(one[1], one[0]), word)
