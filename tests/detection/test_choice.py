# SPDX-License-Identifier: Apache-2.0
"""A gate first runs the rows that a change concerns, as many as it can afford, and reports the
rows that it left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.detection import choice
from tests.detection.choice import Change
from tests.detection.table import shipped

TABLE = shipped()
ROWS = TABLE.rows
SHORT = tuple(row for row in ROWS if not row.long)


def changed(
    *files: str, rows: frozenset[str] = frozenset(), commit: str = "c0ffee", base: str = "ba5e"
) -> Change:
    return Change(commit=commit, base=base, files=files, rows=rows)


def test_a_changed_row_comes_before_all_others_on_one_node_and_then_on_the_others() -> None:
    found = choice.chosen(
        TABLE, ROWS, changed("lib/hybridlab/policy/acls.py", rows=frozenset({"dns-silent-on"})), 5
    )
    assert [row.name.removesuffix(row.node) for row in found.rows] == ["dns-silent-on-"] * 5


@pytest.mark.parametrize(
    ("path", "layers"),
    [
        ("lib/hybridlab/faults/dns.py", {"dns"}),
        ("lib/hybridlab/calico/felix_queue.py", {"policy"}),
        ("lib/conformance/expect/engine/decide.py", set(TABLE.layers)),
        ("tests/detection/runner.py", set(TABLE.layers)),
        ("tests/detection/rows/dns.yaml", set()),
        ("tests/unit/test_arrows.py", set()),
        ("docs/detection.md", set()),
    ],
)
def test_which_layers_a_changed_file_concerns(path: str, layers: set[str]) -> None:
    assert choice.layers(TABLE, [path]) == layers


def test_a_changed_test_of_the_suite_concerns_the_rows_that_name_claims_of_its_area() -> None:
    found = choice.chosen(TABLE, ROWS, changed("suites/snat/test_with_dsr.py"), len(ROWS))
    about = choice.chosen(TABLE, ROWS, changed("suites/snat/test_with_dsr.py"), 0).left_out
    assert found.rows == SHORT
    assert {row.name for row in found.left_out} == {row.name for row in about if row.long}
    assert {"snat-despite-dsr", "mixed-dsr-by-flag", "foreign-policy"} <= {
        row.name for row in about
    }
    assert "dns-stale" not in {row.name for row in about}


def test_a_row_that_runs_the_whole_suite_is_left_out_by_name_even_where_it_is_changed_itself() -> (
    None
):
    found = choice.chosen(
        TABLE, ROWS, changed("lib/conformance/expect/", rows=frozenset({"clean"})), len(ROWS)
    )
    assert found.rows == SHORT
    assert {row.name for row in found.left_out} == {row.name for row in ROWS} - {
        row.name for row in SHORT
    }


def test_what_a_change_concerns_and_has_no_place_is_left_out_by_name() -> None:
    found = choice.chosen(TABLE, ROWS, changed("lib/hybridlab/faults/dns.py"), 15)
    dns = {row.name for row in ROWS if row.layer == "dns"}
    assert len(found.rows) == 15
    assert {row.name for row in found.rows + found.left_out} == dns
    assert not any(row.long for row in found.rows)
    assert (
        len({row.name.removesuffix(f"-{row.node}") for row in found.rows}) == 15
    )  # no row on two nodes before others


@pytest.mark.parametrize(("base", "told"), [("", True), ("ba5e", False)])
def test_without_a_base_or_a_change_the_commit_chooses(base: str, told: bool) -> None:
    one = choice.chosen(TABLE, ROWS, changed(base=base), 15)
    assert len(one.rows) == 15
    assert one == choice.chosen(TABLE, ROWS, changed(base=base), 15)
    assert one.rows != choice.chosen(TABLE, ROWS, changed(base=base, commit="decaf"), 15).rows
    assert ("no base to compare with" in one.says) is told


def test_over_many_commits_every_row_is_run_but_those_of_the_whole_suite() -> None:
    commits = [f"{number:040x}" for number in range(2400)]
    seen = {
        row.name
        for commit in commits
        for row in choice.chosen(TABLE, ROWS, changed(commit=commit), 15).rows
    }
    assert seen == {row.name for row in SHORT}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with one commit behind main, and a table of one row in it."""
    monkeypatch.delenv("DETECTION_BASE", raising=False)
    monkeypatch.setattr(choice, "ROOT", tmp_path)
    monkeypatch.setattr(choice, "ROWS", tmp_path / "rows")
    (tmp_path / "rows").mkdir()
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "rows: {old: {what: a}, same: {what: b}}")
    return tmp_path


def git(where: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(
        command, cwd=where, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(where: Path, table: str) -> str:
    (where / "rows" / "dns.yaml").write_text(table)
    git(where, "add", ".")
    git(where, "commit", "-qm", "one")
    return git(where, "rev-parse", "HEAD")


NEW = "rows: {old: {what: c}, same: {what: b}, new: {what: d}}"


def test_the_first_commit_has_no_base(repository: Path) -> None:
    assert choice.change() == Change(commit=git(repository, "rev-parse", "HEAD"), base="")


def test_on_main_the_base_is_the_first_parent(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    commit(repository, NEW)
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    found = choice.change()
    assert (found.base, found.files, found.rows) == (
        base,
        ("rows/dns.yaml",),
        frozenset({"old", "new"}),
    )


def test_on_a_branch_the_base_is_where_it_left_main(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(repository, NEW)
    commit(repository, NEW + "\n")
    assert choice.change().base == base


@pytest.mark.parametrize(
    ("named", "is_there"), [("HEAD~2", True), ("0" * 40, True), ("f" * 40, False)]
)
def test_a_base_may_be_named(
    repository: Path, monkeypatch: pytest.MonkeyPatch, named: str, is_there: bool
) -> None:
    commit(repository, NEW)
    commit(repository, NEW + "\n")
    monkeypatch.setenv("DETECTION_BASE", named)
    assert bool(choice.change().base) is is_there
