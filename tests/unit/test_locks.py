# SPDX-License-Identifier: Apache-2.0
"""The pinned packages satisfy pyproject.toml; `make lock` writes them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAME = PROJECT["project"]["name"]
GROUPS = {
    "requirements.lock": ("", "lab", "install"),
    "requirements-dev.lock": (
        "", "lab", "lint", "types", "selftest", "changelog", "audit", "install",
    ),
    "requirements-image.lock": ("",),
    "requirements-release.lock": ("release",),
    "requirements-docs.lock": ("docs",),
}  # fmt: skip
"""The lists of pyproject.toml in each lock; the empty name is the project's own."""
STALE = "pyproject.toml and {} disagree: make lock, and commit what it changes"

each_lock = pytest.mark.parametrize("lock", GROUPS)


@dataclass(frozen=True)
class Pin:
    requirement: Requirement
    hashes: frozenset[str]
    required_by: frozenset[str]

    @property
    def version(self) -> str:
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return specifier.version


def pins(text: str) -> dict[str, Pin]:
    found: dict[str, Pin] = {}
    for entry in re.split(r"\n(?=[a-z])", text):
        line, _, rest = entry.partition(" \\\n")
        if line.startswith("#"):
            continue
        requirement = Requirement(line)
        found[canonicalize_name(requirement.name)] = Pin(
            requirement,
            frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})\b", rest)),
            frozenset(re.findall(r"^ +#(?: via |   )(\S.*)$", rest, re.MULTILINE)),
        )
    return found


def of_lock(lock: str) -> dict[str, Pin]:
    return pins((ROOT / lock).read_text(encoding="utf-8"))


def asked(lock: str) -> list[Requirement]:
    """What pyproject.toml asks for in the lists that the lock holds."""
    found = []
    for group in GROUPS[lock]:
        if not group:
            lines = PROJECT["project"]["dependencies"]
        else:
            lines = PROJECT["project"]["optional-dependencies"].get(group) or PROJECT[
                "dependency-groups"
            ].get(group)
        found += [Requirement(line) for line in lines]
    return found


@each_lock
def test_every_requirement_of_the_project_is_pinned_within_its_bounds(lock: str) -> None:
    pinned = of_lock(lock)
    outside = [
        f"{requirement}"
        for requirement in asked(lock)
        if (pin := pinned.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(pin.version, prereleases=True)
    ]
    assert outside == [], STALE.format(lock)


@each_lock
def test_no_pin_stands_for_a_requirement_that_is_gone(lock: str) -> None:
    direct = {
        name
        for name, pin in of_lock(lock).items()
        if any(parent.startswith(f"{NAME} (") for parent in pin.required_by)
    }
    assert direct == {canonicalize_name(each.name) for each in asked(lock)}, STALE.format(lock)


@each_lock
def test_every_pin_has_hashes_and_is_required_by_the_project_or_another_pin(lock: str) -> None:
    pinned = of_lock(lock)
    assert len(pinned) > 30
    assert [name for name, pin in pinned.items() if not pin.hashes or not pin.required_by] == []
    unknown = {
        parent
        for pin in pinned.values()
        for parent in pin.required_by
        if not parent.startswith((f"{NAME} (", "-c ", "--override "))
        and canonicalize_name(parent) not in pinned
    }
    assert unknown == set()


@each_lock
def test_a_lock_names_no_index_and_no_address(lock: str) -> None:
    """The user who installs packages decides where they come from."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert re.findall(r"(?m)^.*(?:://|^--| @ ).*$", text) == []


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-image.lock"])
def test_the_checks_run_with_the_versions_that_the_suite_is_installed_with(lock: str) -> None:
    checked = of_lock("requirements-dev.lock")
    assert {name: (pin.version, pin.hashes) for name, pin in of_lock(lock).items()}.items() <= {
        name: (pin.version, pin.hashes) for name, pin in checked.items()
    }.items()


ADVISORIES = {
    # Above the last release with an advisory that is known here; docs/decisions/0012 says how.
    "aiohttp": "3.13.4", "jinja2": "3.1.6", "orjson": "3.11.6", "pip": "26", "pytest": "9.0.3",
    "requests": "2.33", "setuptools": "78.1.1", "urllib3": "2.6.3",
}  # fmt: skip


@pytest.mark.parametrize("name", ADVISORIES)
def test_a_lower_bound_is_above_the_releases_with_known_advisories(name: str) -> None:
    found = [
        Requirement(line)
        for line in [
            *PROJECT["project"]["dependencies"],
            *PROJECT["project"]["optional-dependencies"]["lab"],
            *PROJECT["dependency-groups"]["install"],
            *PROJECT["build-system"]["requires"],
        ]
        if canonicalize_name(Requirement(line).name) == name
    ]
    assert found
    for requirement in found:
        assert f">={ADVISORIES[name]}" in str(requirement.specifier).split(",")


def test_make_installs_nothing_that_is_not_pinned() -> None:
    """Every call of pip in the Makefile checks hashes, or installs the project alone."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    calls = re.findall(r"^\t.*(?:pip install|\$\((?:INSTALL|LOCKED)\)).*$", makefile, re.MULTILINE)
    assert len(calls) == 7
    assert [
        call
        for call in calls
        if not re.search(
            r"\$\(LOCKED\) requirements[a-z-]*\.lock|\$\(INSTALL\) --no-build-is", call
        )
    ] == []
    assert "INSTALL = -m pip install --no-deps\n" in makefile
    assert "LOCKED = $(INSTALL) --require-hashes --requirement\n" in makefile


def test_what_the_checks_get_as_source_is_built_by_the_pinned_setuptools() -> None:
    """In pip's own environment for builds it would be any newest one, without a hash."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"\n\t.*\$\(LOCKED\) requirements-dev\.lock --no-build-isolation\n", makefile)
    assert of_lock("requirements-dev.lock").keys() >= {"setuptools"}
