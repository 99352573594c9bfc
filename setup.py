# SPDX-License-Identifier: Apache-2.0
"""Puts the suites, their manifests and pytest's configuration into the wheel; everything else is in pyproject.toml.

They lie beside ``lib`` in a checkout, since they are what people read; ``conformance.product`` knows both places.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FILES = (
    "suites/**/*.py",
    "suites/**/*.yaml",
    "manifests/**/*.yaml",
    "manifests/**/*.py",
    "manifests/**/*.ps1",
    "conftest.py",
    "pyproject.toml",
)


class WithSuites(build_py):
    """Modules as usual, and the files; an editable installation has the checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source in (path for pattern in FILES for path in Path().glob(pattern)):
            target = Path(self.build_lib) / "conformance" / "files" / source
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target))


setup(cmdclass={"build_py": WithSuites})
