# SPDX-License-Identifier: Apache-2.0
"""The command that compares sources fetches each with git, and names those that differ."""

from __future__ import annotations

import hashlib
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.unit.conformance.facts.platforms import sources
from tests.unit.conformance.facts.platforms.served import Source


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one file in its one commit."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "calico.yaml").write_text("kind: DaemonSet\n")
    for arguments in (
        ["init", "-q"],
        ["config", "uploadpack.allowAnySHA1InWant", "true"],
        ["config", "uploadpack.allowFilter", "true"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    return folder


def source(repository: Path, **changed: str) -> Source:
    head = ["git", "-C", str(repository), "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    text = (repository / "calico.yaml").read_bytes()
    plain = {
        "what": "a manifest",
        "repository": "o/r",
        "path": "calico.yaml",
        "commit": commit,
        "sha256": hashlib.sha256(text).hexdigest(),
        "licence": "MIT",
    }
    return Source(**{**plain, **changed})


def told(repository: Path, scratch: Path, **changed: str) -> sources.Compared:
    read = partial(sources.fetched, scratch, lambda name: f"file://{repository}")
    return sources.compared([source(repository, **changed)], read)


def test_a_source_as_its_file_says_agrees(repository: Path, tmp_path: Path) -> None:
    found = told(repository, tmp_path / "s")
    assert (found.code, found.lines("there")) == (0, ["1 agree, 0 differ, 0 could not be fetched"])


def test_another_sum_differs_and_its_exit_code_is_1(repository: Path, tmp_path: Path) -> None:
    found = told(repository, tmp_path / "a", sha256="0" * 64)
    (other, last) = found.lines("there")
    assert found.code == 1
    assert other.startswith("o/r@")
    assert f"its file has {'0' * 64}" in other
    assert last == "0 agree, 1 differ, 0 could not be fetched"


@pytest.mark.parametrize("changed", [{"path": "gone.yaml"}, {"commit": "1" * 40}])
def test_where_nothing_can_be_fetched_one_line_says_so(
    changed: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    found = told(repository, tmp_path / "b", **changed)
    (line,) = found.lines("there")
    assert found.code == 2
    assert line.startswith("nothing was compared: none of 1 sources could be fetched from there (")
    assert "\n" not in line


def test_what_is_missing_in_clones_beside_what_agrees_is_named(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "r").symlink_to(repository)
    both = [source(repository), source(repository, path="gone.yaml")]
    found = sources.compared([*both, *both], partial(sources.cloned, tmp_path))
    (missing, last) = found.lines("there")
    assert found.code == 2
    assert "gone.yaml: fatal: path 'gone.yaml' does not exist" in missing
    assert last == "1 agree, 0 differ, 1 could not be fetched"


def test_the_command_has_help_refuses_unknown_clusters_and_says_where_nothing_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, code in ((["--help"], 0), (["nowhere"], 2)):
        with pytest.raises(SystemExit) as ended:
            sources.main(words)
        assert ended.value.code == code
    printed = capsys.readouterr()
    assert "--clones FOLDER" in printed.out
    assert "no cluster nowhere; there are aks-annotated, " in printed.err
    assert sources.main(["gke", "--clones", str(tmp_path)]) == 2
    assert capsys.readouterr().out.startswith("nothing was compared: none of ")
