# SPDX-License-Identifier: Apache-2.0
"""The image runs the suite itself as a user without rights, by packages whose hashes the lock
has."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
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
    build, _ = instructions("RUN")
    (installs,) = re.findall('install="(.*?)"', build)
    assert installs.endswith(
        "-m pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary=:all:"
    )
    assert "$install --require-hashes --requirement /build/requirements-image.lock" in build
    assert "rm -r" in build.partition("uninstall")[2]
    assert "hybridlab" in build, "the lab is not in the image"
    (copied,) = (line for line in instructions("COPY") if "--from" not in line)
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ["*", *(f"!{each}" for each in copied.split()[:-1])] == kept


def test_bytecode_is_made_while_it_can_be_written() -> None:
    last = TEXT.rpartition("FROM ")[2]
    before, run, after = last.partition("RUN ")
    assert run, "tests/lab/jobs/test_image.py executes it"
    assert "COPY --from=build" in before
    assert "USER" not in before
    assert "PYTHONDONTWRITEBYTECODE" not in before
    assert "PYTHONDONTWRITEBYTECODE=1" in after


def wheel(folder: Path, name: str, needs: str, *packages: str) -> Path:
    """Write a wheel with packages, each with a program of its name."""
    about = f"{name.replace('-', '_')}-1.dist-info"
    programs = "".join(f"{each} = {each}:main\n" for each in packages)
    files = {
        **{f"{each}/__init__.py": "" for each in packages},
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{needs}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[console_scripts]\n{programs}",
    }
    record = "".join(f"{file},,\n" for file in files)
    path = folder / f"{name.replace('-', '_')}-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        for file, text in {**files, f"{about}/RECORD": record}.items():
            made.writestr(file, text)
    return path


@pytest.mark.parametrize("needs", ["Requires-Dist: needed\n", "Requires-Dist: forgotten\n"])
def test_the_commands_of_the_build_install_the_lock_and_the_wheel_and_no_lab(
    tmp_path: Path, needs: str
) -> None:
    """Executed as the engine would, with a wheel of two packages and what it needs."""
    build, _ = instructions("RUN")
    folder, suite = tmp_path / "build", tmp_path / "suite"
    folder.mkdir()
    wheel(folder, "calico-windows-conformance", needs, "conformance", "hybridlab")
    digest = hashlib.sha256(wheel(tmp_path, "needed", "", "needed").read_bytes()).hexdigest()
    (folder / "requirements-image.lock").write_text(f"needed==1 --hash=sha256:{digest}\n")
    script = build.replace("/build/", f"{folder}/").replace("/opt/suite", str(suite))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
    }
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    if "forgotten" in needs:
        assert done.returncode == 1
        assert "requires forgotten, which is not installed" in done.stdout
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (suite / "bin").iterdir()} >= {"conformance", "needed"}
    assert not [path for path in suite.rglob("*") if path.name in ("hybridlab", "pip")]


FIELDS_OF_PLUGINS = {"sonobuoy-config", "spec", "extra-volumes", "podSpec", "config-map"}
FIELDS_OF_CONFIG = {
    "driver", "plugin-name", "skip-cleanup", "result-format", "result-files", "description",
    "source-url", "order",
}  # fmt: skip
"""Sonobuoy's pkg/plugin/manifest/manifest.go at 3075601: it leaves out every other field without a
word."""


def test_the_plugin_of_sonobuoy_tells_the_run_where_it_is_and_says_that_it_is_untried() -> None:
    text = (ROOT / "docs" / "examples" / "sonobuoy-plugin.yaml").read_text(encoding="utf-8")
    assert "Untried" in text
    plugin = yaml.safe_load(text)
    assert plugin["sonobuoy-config"]["driver"] == "Job"
    assert plugin["sonobuoy-config"]["result-format"] == "junit"
    assert plugin.keys() <= FIELDS_OF_PLUGINS
    assert plugin["sonobuoy-config"].keys() <= FIELDS_OF_CONFIG
    names = {entry["name"] for entry in plugin["spec"]["env"]}
    assert names >= ENVIRONMENT.keys() - {"POD_NAME"}
    assert '"$SONOBUOY_RESULTS_DIR/done"' in plugin["spec"]["args"][0]
