# SPDX-License-Identifier: Apache-2.0
"""The image runs the suite itself as a user without rights, by packages whose hashes the lock
has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import yaml

from conformance.cli import OF_JOBS
from conformance.jobs.fetch import PROGRAM
from conformance.jobs.objects import ENVIRONMENT, USER

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = re.sub(r"\\\n", " ", TEXT).splitlines()


def instructions(word: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{word} ")]


def test_the_suite_is_the_containers_own_process_and_receives_its_signals() -> None:
    (entry,) = instructions("ENTRYPOINT")
    assert json.loads(entry) == [PROGRAM], "the exec form: no shell stands between"
    assert {"fetch", "hold"} <= OF_JOBS.keys()


def test_its_user_is_the_jobs_and_owns_nothing_in_it() -> None:
    assert instructions("USER") == [f"{USER}:{USER}"]
    assert not [line for line in LINES if "--chown" in line or "chmod" in line]


def test_every_stage_has_the_base_that_a_release_gives_by_digest() -> None:
    (base,) = instructions("ARG")
    assert re.fullmatch(r"BASE=[\w./]+:[\w.-]+-slim", base)
    assert instructions("FROM") == ["${BASE} AS build", "${BASE}"]
    release = (ROOT / ".github" / "workflows" / "release.yaml").read_text(encoding="utf-8")
    assert "s/^ARG BASE=//p" in release
    assert '--build-arg BASE="$base"' in release


def test_packages_are_those_of_the_lock_and_none_is_built() -> None:
    (build,) = instructions("RUN")
    assert "--require-hashes --constraint /build/requirements.lock" in build
    assert "--only-binary=:all:" in build
    assert "rm -r" in build.partition("uninstall")[2]
    assert "hybridlab" in build, "the lab is not in the image"
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^[\w.-]+==\S+.*\\\n +--hash=sha256:", lock, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[\w.-]+==", lock, re.MULTILINE))


def small_wheel(folder: Path) -> None:
    """A wheel with the two packages and programs of the suite's, which needs nothing else."""
    about = "calico_windows_conformance-0.1.0.dist-info"
    files = {
        "conformance/__init__.py": "",
        "hybridlab/__init__.py": "",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: calico-windows-conformance\n"
        "Version: 0.1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\ncalico-conformance = conformance:main\n"
        "hybridlab = hybridlab:main\n",
    }
    record = "".join(f"{name},,\n" for name in files)
    with zipfile.ZipFile(folder / "calico_windows_conformance-0.1.0-py3-none-any.whl", "w") as made:
        for name, text in {**files, f"{about}/RECORD": record}.items():
            made.writestr(name, text)


def test_the_commands_of_the_build_can_be_executed_with_the_lock(tmp_path: Path) -> None:
    """pip takes no wheel without a hash beside a lock with hashes."""
    (build,) = instructions("RUN")
    folder, suite = tmp_path / "build", tmp_path / "suite"
    folder.mkdir()
    small_wheel(folder)
    (folder / "requirements.lock").write_bytes((ROOT / "requirements.lock").read_bytes())
    script = build.replace("/build/", f"{folder}/").replace("/opt/suite", str(suite))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", script],
        env=environment | {"PIP_NO_INDEX": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (suite / "bin" / PROGRAM).exists()
    assert list(suite.rglob("conformance/__init__.py"))
    assert not [path for path in suite.rglob("*") if path.name in ("hybridlab", "pip")]


def test_the_plugin_of_sonobuoy_tells_the_run_where_it_is_and_says_that_it_is_untried() -> None:
    text = (ROOT / "docs" / "examples" / "sonobuoy-plugin.yaml").read_text(encoding="utf-8")
    assert "Untried" in text
    plugin = yaml.safe_load(text)
    assert plugin["sonobuoy-config"]["driver"] == "Job"
    assert plugin["sonobuoy-config"]["result-format"] == "junit"
    names = {entry["name"] for entry in plugin["spec"]["env"]}
    assert names >= ENVIRONMENT.keys() - {"POD_NAME"}
    assert '"$SONOBUOY_RESULTS_DIR/done"' in plugin["spec"]["args"][0]
