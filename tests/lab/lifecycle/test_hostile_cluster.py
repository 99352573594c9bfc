# SPDX-License-Identifier: Apache-2.0
"""A hostile cluster cannot command terminals, CI systems or browsers by any output.

Every output of a run, and of every command that prints, is searched for control characters,
commands of CI systems, markup and secrets.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.hostile_api import SECRETS, HostileApi, hostile_api
from tests.lab.lab_process import running_lab

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("hostile")]
WITHIN = 300.0
"""s.  Only a run that hangs is caught."""
TEXTS = (".json", ".txt", ".log", ".xml", ".html", ".yaml", ".properties", "")
HARMLESS = "\t\n\u00a0\u200c\u200d"
COMMAND = re.compile(r"##\w*\[|^\s*::", re.MULTILINE)


def obeyed(text: str) -> list[str]:
    """Return the parts of a text that a terminal obeys or that reverse its letters, with the text
    around them."""
    return [
        repr(text[max(0, place - 40) : place + 20])
        for place, char in enumerate(text)
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in HARMLESS
    ][:5]


def commands(text: str) -> list[str]:
    return [repr(found[0]) for found in COMMAND.finditer(text)][:5]


@dataclass
class Hostile:
    """A run on such a cluster, and how to run other commands on it."""

    api: HostileApi
    kubeconfig: Path
    reports: Path
    done: subprocess.CompletedProcess[str]

    @property
    def folder(self) -> Path:
        return (self.reports / "latest").resolve()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of the suite's to its end, with no environment of pytest's own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={
            **kept,
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(ROOT / "lib"), kept.get("PYTHONPATH")))
            ),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WITHIN,
        check=False,
    )
    out, err = (each.decode(errors="surrogateescape") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    folder = tmp_path_factory.mktemp("hostile")
    through = folder / "through.yaml"
    with running_lab(folder) as lab, hostile_api(lab.kubeconfig, through) as api:
        reports = folder / "reports"
        done = run(
            "pytest", "--claim", "DEMO-2", "-p", "no:cacheprovider", "-n", "0", "-v",
            f"--kubeconfig={through}", f"--report-dir={reports}",
            f"--events={folder / 'events.jsonl'}",
        )  # fmt: skip
        yield Hostile(api, through, reports, done)


def printed_well(done: subprocess.CompletedProcess[str]) -> None:
    """Nothing that it printed is obeyed by anybody."""
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        assert obeyed(text) == [], f"{name} of {done.args}"
        assert commands(text) == [], f"{name} of {done.args}"


def test_what_a_run_prints_is_obeyed_by_no_terminal_and_no_ci_system(hostile: Hostile) -> None:
    print(hostile.done.stdout[-6000:], hostile.done.stderr[-3000:])
    printed_well(hostile.done)
    assert {"objects", "log", "exec"} <= hostile.api.changed.keys(), hostile.api.changed
    assert "hostile" in hostile.done.stdout
    assert (hostile.folder / "conformance.json").exists()
    assert "last look at logs: 1 panic" in hostile.done.stdout


def test_no_file_of_a_run_holds_what_a_terminal_obeys(hostile: Hostile) -> None:
    files = [path for path in hostile.folder.rglob("*") if path.is_file() and path.suffix in TEXTS]
    assert len(files) > 8
    found = {
        path.relative_to(hostile.folder).as_posix(): told
        for path in files
        if ".run" not in path.parts and "lab" not in path.relative_to(hostile.folder).parts
        if (told := obeyed(path.read_bytes().decode(errors="surrogateescape")))
    }
    assert found == {}
    for path in (hostile.folder / "allure").glob("*.json"):
        assert obeyed(json.dumps(json.loads(path.read_text()), ensure_ascii=False)) == [], path
        assert "\\u001b" not in path.read_text(), path
    assert "\\u001b" not in (hostile.folder / "conformance.json").read_text()


def test_events_are_obeyed_by_no_terminal_and_no_ci_system_and_hold_no_secret(
    hostile: Hostile,
) -> None:
    text = (hostile.kubeconfig.parent / "events.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[-1]["event"] == "run_ended"
    assert obeyed(text) == []
    assert commands(text) == []
    assert [secret for secret in SECRETS if secret in text] == []
    assert "hostile" in text


def test_no_name_leads_a_file_out_of_the_runs_folder(hostile: Hostile) -> None:
    left = {path.name for path in hostile.folder.parent.parent.rglob("*") if "hostile" in path.name}
    outside = [path for path in hostile.folder.parents if (path / "hostile").exists()]
    assert outside == []
    assert left
    assert all(name.isprintable() for name in left)


def test_the_page_and_the_archive_hold_no_markup_and_no_secret(
    hostile: Hostile, tmp_path: Path
) -> None:
    done = run("conformance.cli", "pack", str(hostile.folder), "--to", str(tmp_path / "run.zip"))
    assert done.returncode == 0, done.stderr
    printed_well(done)
    page = (hostile.folder / "report.html").read_text()
    texts = {"report.html": page}
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        texts |= {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "hostile" in page
    leaks = [
        (name, secret)
        for name, text in texts.items()
        for secret in SECRETS
        if secret in text or secret in html.unescape(text)
    ]
    assert leaks == []


@pytest.mark.parametrize(
    "words",
    [
        ["pytest", "--plan", "-v"],
        ["pytest", "--list-images"],
        ["pytest", "--janitor", "--dry-run"],
        ["pytest", "--dry-run", "--claim", "DEMO-2"],
        ["pytest", "--claim", "DEMO-2", "--nodes", "no-such-node"],
        ["pytest", "--claim", "DEMO-2", "--node-selector", "hostile=no-such-value"],
    ],
    ids=" ".join,
)
def test_what_commands_about_the_cluster_print_is_obeyed_by_nobody(
    hostile: Hostile, words: list[str], tmp_path: Path
) -> None:
    done = run(
        *words,
        "-p",
        "no:cacheprovider",
        f"--kubeconfig={hostile.kubeconfig}",
        f"--report-dir={tmp_path}",
    )
    print(done.stdout[-3000:], done.stderr[-3000:])
    printed_well(done)
    assert done.returncode in (0, 4, 6, 7)


@pytest.mark.parametrize(
    "words",
    [
        ["show", "RUN"],
        ["show", "RUN", "-v"],
        ["show", "RUN", "--format", "markdown"],
        ["show", "RUN", "--format", "json"],
        ["gate", "RUN", "--require", "core"],
        ["gate", "RUN", "--require", "core", "--format", "json"],
        ["gate", "RUN", "--require", "core", "--format", "markdown"],
        ["matrix", "RUN", "RUN"],
        ["matrix", "RUN", "--format", "json"],
        ["matrix", "RUN", "--format", "markdown"],
        ["diff", "RUN", "RUN", "-v"],
        ["diff", "RUN", "RUN", "--format", "json"],
        ["diff", "RUN", "RUN", "--format", "markdown", "-v"],
    ],
    ids=" ".join,
)
def test_what_commands_about_the_report_print_is_obeyed_by_nobody(
    hostile: Hostile, words: list[str]
) -> None:
    done = run(
        "conformance.cli", *(str(hostile.folder) if word == "RUN" else word for word in words)
    )
    printed_well(done)
    assert done.returncode in (0, 1, 6), done.stderr
