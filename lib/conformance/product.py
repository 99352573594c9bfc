# SPDX-License-Identifier: Apache-2.0
"""Where the suite's files are: in a checkout, or in an installed wheel, which has them below this package."""

from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]
_INSTALLED = Path(__file__).parent / "files"
"""What setup.py puts suites, manifests and pytest's configuration into."""


def root() -> Path:
    """The folder that has ``suites``, ``manifests`` and ``pyproject.toml``."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


def command() -> str:
    """How a run is begun: ``pytest`` in a checkout, ``calico-conformance run`` where the suite was installed."""
    return "calico-conformance run" if root() == _INSTALLED else "pytest"


MANIFESTS = root() / "manifests"
