# SPDX-License-Identifier: Apache-2.0
"""``make new-claim`` begins a claim that disturbs nothing: two files, checks that stay green, and a verdict NOT_RUN."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.catalog import load
from tests.plugin.selecting import ROOT
from tests.unit.test_suite_conventions import offences
from tools.new_claim import KINDS, add

AT_MOST = 4
"""Files that beginning a claim may touch."""
PAGE = ROOT / "docs" / "adding-a-claim.md"
CHECKS = (
    "tests/unit/conformance/catalog", "tests/unit/conformance/qualify/test_stored_reports.py",
    "tests/unit/test_arrows.py", "tests/unit/test_manifests.py", "tests/unit/test_places.py",
    "tests/unit/test_suite_conventions.py",
    "tests/plugin/test_parts.py", "tests/detection/test_detection.py", "tests/detection/test_wrong_verdicts.py",
)  # fmt: skip
"""The checks that read the catalog, the sets, the suites and the pages."""


def copied(to: Path) -> Path:
    """The files of this checkout, with what is not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def environment(checkout: Path) -> dict[str, str]:
    """Ours, with the copy's libraries in place of this checkout's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    return {**kept, "PYTHONPATH": f"{checkout / 'lib'}:{checkout}", "PYTHONDONTWRITEBYTECODE": ""}


def new_claim(checkout: Path, *given: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "new-claim", f"PYTHON={sys.executable}", *given]
    return subprocess.run(
        command,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        env=environment(checkout),
    )


def pytest_in(checkout: Path, *given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *given]
    return subprocess.run(
        command,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        env=environment(checkout),
        timeout=240,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with a claim begun."""
    made = copied(tmp_path_factory.mktemp("checkout"))
    before = contents(made)
    done = new_claim(made, "ID=IPAM-15")
    assert done.returncode == 0, done.stdout + done.stderr
    after = contents(made)
    touched = sorted(
        name for name in after.keys() | before.keys() if after.get(name) != before.get(name)
    )
    assert touched == ["lib/conformance/catalog/data/ipam.yaml", "suites/ipam/test_ipam_15.py"]
    assert len(touched) <= AT_MOST
    assert done.stdout.splitlines()[:-1] == touched
    return made


def test_the_checks_of_catalog_sets_suites_and_pages_stay_green(checkout: Path) -> None:
    done = pytest_in(checkout, *CHECKS)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_what_is_generated_stays_current(checkout: Path) -> None:
    written = (ROOT / "docs" / "selecting.md").read_text(encoding="utf-8")
    row = re.search(r"^\| `ipam` \| [^|]+ \| (\d+) \|", written, re.MULTILINE)
    assert row
    code = "from tests.plugin.selecting import selected; print(selected('ipam')[0][0])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
        env=environment(checkout),
    )
    assert done.stdout.split() == [row[1]]


def test_the_claim_is_not_run_and_says_why(checkout: Path) -> None:
    done = pytest_in(checkout, "--claim=IPAM-15", "--report-dir=reports")
    report = json.loads(
        (checkout / "reports" / "latest" / "conformance.json").read_text(encoding="utf-8")
    )
    claim = next(claim for claim in report["claims"] if claim["id"] == "IPAM-15")
    assert (claim["verdict"], claim["reason"]) == ("NOT_RUN", "IPAM-15 is not written yet"), (
        done.stdout
    )
    assert "IPAM-15" in done.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["ID=IPAM-15"], "IPAM-15 is already in ipam.yaml, and has a test"),
        (["ID=IPAM-17"], "the next IPAM claim is IPAM-16"),
        (["ID=ipam-14"], "'ipam-14' is not a claim's id"),
        (
            ["ID=NEW-1"],
            "no claim begins with NEW- yet: name its area with --area, one of bgp, cloud, ",
        ),
        (["ID=NEW-1", "AREA=tags"], "there is no area tags"),
        (["ID=IPAM-16", "AREA=bgp"], "IPAM claims are in ipam.yaml, not in bgp.yaml"),
    ],
)
def test_what_cannot_be_begun_is_refused_and_changes_nothing(
    checkout: Path, given: list[str], said: str
) -> None:
    before = contents(checkout / "lib" / "conformance" / "catalog"), contents(checkout / "suites")
    done = new_claim(checkout, *given)
    assert done.returncode != 0
    assert said in done.stderr
    assert (
        contents(checkout / "lib" / "conformance" / "catalog"),
        contents(checkout / "suites"),
    ) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_skeleton_of_each_kind_keeps_the_conventions_and_names_what_is_there(
    tmp_path: Path, kind: str
) -> None:
    for folder in ("lib/conformance/catalog/data", "suites"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    entry, test = add(tmp_path, "CONN-8", kind=kind)
    assert offences(test) == []
    for module, names in re.findall(
        r"^from (conformance\.\w+) import (.+)$", test.read_text(encoding="utf-8"), re.MULTILINE
    ):
        assert set(names.split(", ")) <= set(vars(importlib.import_module(module)))
    claim = load(entry.parent)["CONN-8"]
    assert (claim.denial, claim.needs.host_process) == (kind == "policy", kind == "host")


def test_a_claim_of_the_catalog_without_a_test_gets_just_the_test(tmp_path: Path) -> None:
    for folder in ("lib/conformance/catalog/data", "suites", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy2(ROOT / "Makefile", tmp_path)
    done = new_claim(tmp_path, "ID=XVX-2")
    assert done.stdout.splitlines()[:-1] == ["suites/vxlan/test_xvx_2.py"], done.stderr


def test_the_first_claim_of_a_family_goes_to_the_area_that_is_named(tmp_path: Path) -> None:
    for folder in ("lib/conformance/catalog/data", "suites", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy2(ROOT / "Makefile", tmp_path)
    done = new_claim(tmp_path, "ID=NEW-1", "AREA=ipam", "SOURCE=calico#10199")
    assert done.stdout.splitlines()[:-1] == [
        "lib/conformance/catalog/data/ipam.yaml",
        "suites/ipam/test_new_1.py",
    ]
    assert "sources: [calico#10199]" in (
        tmp_path / "lib/conformance/catalog/data/ipam.yaml"
    ).read_text("utf-8")


def test_every_line_that_the_page_would_add_stands_in_the_repository() -> None:
    found = re.findall(
        r"^--- a/(\S+)\n((?:\+.*\n)+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(found) == 4
    for name, added in found:
        there = (ROOT / name).read_text(encoding="utf-8").splitlines()
        assert [line for line in added.splitlines() if line[1:] not in there] == [], name
