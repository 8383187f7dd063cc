"""The Dockerfile: Docker's parser takes it, its images are those that the tests know, and README names
its targets. ``tests/repo/test_wheel.py`` runs its lines on the wheel."""

from __future__ import annotations

import re

import pytest

from ray_committer.version import __version__
from tests.cluster_configs.dockerfile import PATH, run_lines, stages
from tests.cluster_configs.pins import CONFIGS, image, spark_image, wrong_pins

README = (CONFIGS / "README.md").read_text()


def test_the_images_are_those_of_the_other_files():
    assert {name: stage.image for name, stage in stages(PATH.read_text()).items()} == {
        "ray": image(),
        "spark": spark_image(),
    }


def test_it_installs_this_version_and_extras_that_there_are():
    (line,) = run_lines("ray")
    assert line.startswith("pip install")
    assert f"]=={__version__}" in line
    assert list(wrong_pins(line)) == []


def test_no_image_runs_as_root():
    assert [words[0] for words in stages(PATH.read_text())["spark"].of("USER")] == ["root", "spark"]
    assert stages(PATH.read_text())["ray"].of("USER") == []  # Ray's own user


def test_readme_builds_each_target_and_pushes_it():
    built = re.findall(r"docker build --file (\S+) --target (\w+) --tag (\S+) \.\n", README)
    assert {file for file, _, _ in built} == {"cluster_configs/Dockerfile"}
    assert {target for _, target, _ in built} == stages(PATH.read_text()).keys()
    for _, _, tag in built:
        assert f"docker push {tag}\n" in README
    assert list(wrong_pins(README)) == []
    named = set(re.findall(r"--build-arg\s+(\w+)=", README))
    assert named == set(re.findall(r"^ARG (\w+)", PATH.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("COPY dist", "COPPY dist", "COPPY"), ("FROM rayproject", "FORM rayproject", "FORM")],
)
def test_a_wrong_copy_is_refused(old: str, new: str, message: str):
    text = PATH.read_text()
    assert old in text
    with pytest.raises(ValueError, match=message):
        stages(text.replace(old, new))
