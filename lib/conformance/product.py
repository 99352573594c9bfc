# SPDX-License-Identifier: Apache-2.0
"""The location of the suite's files: a checkout, or an installed wheel, which has the files below
this package."""

from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]
_INSTALLED = Path(__file__).parent / "files"
"""The folder into which setup.py puts suites, manifests and pytest's configuration."""


def root() -> Path:
    """Return the folder that has ``suites``, ``manifests`` and ``pyproject.toml``."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def command() -> str:
    """Return the command that starts a run: ``pytest`` in a checkout, ``calico-conformance run`` if
    the suite was installed."""
    return "calico-conformance run" if root() == _INSTALLED else "pytest"


def replay(option: str, path: Path) -> str:
    """Return the command that runs the world or story of a file again. A file of the suite is named
    relative to the suite's root."""
    shown = path.relative_to(root()) if path.is_relative_to(root()) else path
    return f"{command()} --{option}={shown}"


MANIFESTS = root() / "manifests"
