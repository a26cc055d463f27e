"""What the package index shows: the README without dead links, and one version everywhere."""

from __future__ import annotations

import re
import runpy
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomllib

import adept

ROOT = Path(__file__).parent.parent
README = """\
![a picture](docs/images/gain.png)

Read [docs/report.md](docs/report.md#badges), [the schedulers](docs/schedulers.md) and [the paper](https://arxiv.org/abs/2501.12620).
"""


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def setup() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "setup.py")))


def test_without_an_address_links_become_text(setup: SimpleNamespace) -> None:
    assert setup.for_an_index(README, None) == (
        "Read docs/report.md (`docs/report.md#badges`), the schedulers (`docs/schedulers.md`)"
        " and [the paper](https://arxiv.org/abs/2501.12620).\n"
    )


def test_with_the_address_of_the_source_links_are_absolute(setup: SimpleNamespace) -> None:
    shown = setup.for_an_index(README, "https://example.org/adept")
    assert "![a picture](https://example.org/adept/docs/images/gain.png)" in shown
    assert "[docs/report.md](https://example.org/adept/docs/report.md#badges)" in shown
    assert "[the paper](https://arxiv.org/abs/2501.12620)" in shown


def test_the_readme_of_the_package_has_no_link_to_a_file(setup: SimpleNamespace) -> None:
    shown = setup.for_an_index((ROOT / "README.md").read_text(encoding="utf-8"), None)
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert links
    assert all(link.startswith("https://") for link in links), links


def test_the_citation_names_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {adept.__version__}\n" in citation


def test_the_changelog_begins_with_the_version_and_its_date() -> None:
    entries = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    version, _, date = next(entry for entry in entries if entry != "[Unreleased]").partition(" - ")
    assert version == f"[{adept.__version__}]"
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", date)
    assert f"\ndate-released: {date}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_extras_install_on_every_supported_python() -> None:
    for extra, group in PROJECT["optional-dependencies"].items():
        # An extra that installs nothing would advise itself.
        assert [requirement for requirement in group if "python_version" not in requirement], extra


def test_the_versions_of_python_are_those_that_are_tested() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={named[0]}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^\t\.ci/other_pythons (.*)$", makefile, re.MULTILINE)
    assert sorted([*tested.split(), "3.11"]) == sorted(named)  # 3.11 is the one of `make test`


def pins(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = [line.split("==") for line in lines if not line.startswith("#")]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_demo_installs_all_that_the_trainer_needs_as_pinned_for_the_tests() -> None:
    """The lists are installed without a resolver: one that lacks something would be found out by a user."""
    requirements = pytest.importorskip("packaging.requirements")
    todo = [requirements.Requirement(text) for text in PROJECT["optional-dependencies"]["train"]]
    needed = {"numpy"}
    while todo:
        requirement = todo.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        extras = requirement.extras or {""}
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            if name not in needed:
                todo += map(requirements.Requirement, metadata.requires(name) or ())
            needed.add(name)
    demo, everything = pins("constraints/demo.txt"), pins("constraints.txt")
    assert needed <= demo.keys(), needed - demo.keys()
    assert demo.items() <= everything.items()


def test_every_tool_of_the_dev_extra_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"]
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    for requirement in [*extras["dev"], *extras["docs"]]:
        name = re.split(r"[\[<>=]", requirement)[0].lower()
        assert name == "adept-rl" or f"\n{name}==" in pins, name
