"""The spark-defaults files, as Spark reads them."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "cluster_configs" / "spark-defaults"


def settings_of(path: Path) -> dict[str, str]:
    lines = [line.split(maxsplit=1) for line in path.read_text().splitlines()]
    return {words[0]: words[1] for words in lines if words and words[0].startswith("spark.")}
