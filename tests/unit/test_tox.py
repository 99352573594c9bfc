# SPDX-License-Identifier: Apache-2.0
"""tox and make run the same: every environment of tox has its target."""

from __future__ import annotations

import re
from configparser import RawConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = {"lint", "types", "selftest", "conformance", "cluster", "detection", "reliability"}


def test_every_environment_of_tox_is_a_target_of_make() -> None:
    tox = RawConfigParser()
    tox.read_string((ROOT / "tox.ini").read_text(encoding="utf-8"))
    known = {
        name.removeprefix("testenv:") for name in tox.sections() if name.startswith("testenv:")
    }
    known |= {name.strip() for name in tox["tox"]["env_list"].split(",")}
    targets = set(
        re.findall(
            r"^check-([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert known == NAMED, "tox refuses names that its file does not have"
    assert known <= targets


def test_no_environment_of_tox_shares_its_folder_with_another() -> None:
    """tox makes a folder anew when an environment of another name had it before."""
    tox = RawConfigParser()
    tox.read_string((ROOT / "tox.ini").read_text(encoding="utf-8"))
    assert [name for name in tox.sections() if tox.has_option(name, "env_dir")] == []
