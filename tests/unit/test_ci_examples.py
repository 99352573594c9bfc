"""The jobs in docs/examples/ci use options and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples" / "ci").iterdir())
OPTIONS = (ROOT / "lib" / "conformance" / "plugin" / "options.py").read_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_option_of_the_suite_in_an_example_is_one(path: Path) -> None:
    commands = [line for line in path.read_text().splitlines() if ".venv/bin/pytest" in line]
    assert commands
    for option in re.findall(r"(--[a-z-]+)", " ".join(commands)):
        assert f'"{option}"' in OPTIONS, option


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_attaches_the_page_the_allure_results_and_both_junit_files(path: Path) -> None:
    text = path.read_text()
    assert [item for item in ("report.html", "conformance.json", "allure/", "junit*.xml") if item not in text] == []


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.suffix == ".yaml"], ids=lambda path: path.name)
def test_an_example_in_yaml_can_be_read(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)
