"""Is this a conformance run?  Only then does the plugin do anything; tests of the library itself never start a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

SUITES = "suites"


def awake(config: pytest.Config) -> bool:
    """Whether the arguments, or testpaths in their place, name something under ``suites/``."""
    suites = config.rootpath / SUITES
    return any(_touches(argument, suites, config.invocation_params.dir) for argument in config.args)


def whole(config: pytest.Config) -> bool:
    """Whether nothing narrows the selection, so that a claim without results has no test."""
    option = config.option
    suites = config.rootpath / SUITES
    everything = any(
        _path(argument, config.invocation_params.dir) in (suites, *suites.parents) for argument in config.args
    )
    narrowed = option.keyword or option.markexpr or option.claim or option.smoke
    narrowed = narrowed or getattr(option, "deselect", None) or getattr(option, "lf", False)
    return everything and not narrowed


def _touches(argument: str, suites: Path, base: Path) -> bool:
    path = _path(argument, base)
    return path == suites or suites in path.parents or path in suites.parents


def _path(argument: str, base: Path) -> Path:
    return (base / argument.partition("::")[0]).resolve()
