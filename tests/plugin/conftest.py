# SPDX-License-Identifier: Apache-2.0
"""A project with its own suites and a stand-in for the cluster, run by a real pytest in a separate
process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.plugin import forked

ROOT = Path(__file__).parents[2]
WITHIN = 120.0
"""s. Far longer than a run takes, so that only a hanging run exceeds it."""
STAND_IN = Path(__file__).with_name("stand_in_cluster.py")

PYPROJECT = """
[tool.pytest.ini_options]
testpaths = ["suites"]
addopts = [
    "--import-mode=importlib", "--strict-markers", "--strict-config", "-ra",
    # as where the suite alone is installed; the plugin imports Hypothesis at the end of each run
    "-p", "no:hypothesispytest",
]
"""


@dataclass
class Run:
    """The results of one pytest process."""

    code: int
    out: str
    folder: Path | None

    @property
    def report(self) -> dict[str, Any]:
        assert self.folder is not None, self.out
        content: dict[str, Any] = json.loads((self.folder / "conformance.json").read_text())
        return content

    def claim(self, ident: str) -> dict[str, Any]:
        return next(claim for claim in self.report["claims"] if claim["id"] == ident)

    def verdict(self, ident: str) -> str | None:
        verdict: str | None = self.claim(ident)["verdict"]
        return verdict


class Project:
    """Files in a temporary directory, and runs of pytest on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "pyproject.toml").write_text(PYPROJECT)
        (path / "conftest.py").write_text(
            'pytest_plugins = ["conformance.plugin", "stand_in_cluster"]\n'
        )
        (path / "stand_in_cluster.py").write_text(STAND_IN.read_text())
        (path / "suites").mkdir()

    def suite(self, body: str, name: str = "test_it.py", folder: str = "suites") -> None:
        target = self.path / folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(
            "import pytest\nfrom conformance.marks import about, needs, smoke, verifies\n"
            "from conformance.errors import *\n" + textwrap.dedent(body)
        )

    # A new Python process, for tests of what a run does at its end.
    def start(
        self, *arguments: str, directory: str = ".", **environment: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.path / directory,
            env={**variables(self.path), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, **environment: str) -> Run:
        out = self.path.with_name(f"{self.path.name}.out")
        code = forked.run(
            ["-p", "no:cacheprovider", *arguments],
            self.path,
            {**variables(self.path), **environment},
            out,
            WITHIN,
        )
        return self._left(code, out.read_text())

    def finish(self, process: subprocess.Popen[str]) -> Run:
        out, _ = process.communicate(timeout=WITHIN)
        return self._left(process.returncode, out)

    def _left(self, code: int, out: str) -> Run:
        latest = self.path / "reports" / "latest"
        return Run(code, out, latest.resolve() if latest.exists() else None)


def variables(path: Path) -> dict[str, str]:
    """Return the environment of a run: this process's, without the variables of pytest and
    Kubernetes."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "KUBE"))
    }
    return {
        **kept,
        "PYTHONPATH": f"{path}{os.pathsep}{ROOT / 'lib'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    return lambda: Project(tmp_path_factory.mktemp("project"))
