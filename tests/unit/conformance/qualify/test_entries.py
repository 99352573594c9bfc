# SPDX-License-Identifier: Apache-2.0
"""A file of entries says where it is wrong: that it cannot be read, is no YAML, or is no list."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageProblem
from conformance.qualify.entries import read, refuse


def test_each_entry_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("- claim: A-1\n- 3\n")
    assert read(path, "--waivers", "waivers") == [
        (f"--waivers {path}, entry 1", {"claim": "A-1"}),
        (f"--waivers {path}, entry 2", 3),
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"claim: A-1\n", ": expected a list of waivers"),
        (b"", ": expected a list of waivers"),
        (b"- a\n- b: [\n", ":3: not YAML: "),
        (b"- \xff\n", ": cannot be read: "),
    ],
)
def test_a_file_that_is_no_list_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageProblem) as caught:
        read(path, "--waivers", "waivers")
    assert str(caught.value).startswith(f"--waivers {path}{why}")


def test_a_missing_file_is_named_with_the_system_s_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"cannot be read: No such file or directory$"):
        read(tmp_path / "none.yaml", "--waivers", "waivers")


def test_the_first_check_that_fails_is_told() -> None:
    refuse("here", (False, "first"), ("", "second"))
    with pytest.raises(UsageProblem, match=r"^here: second$"):
        refuse("here", (False, "first"), ("x", "second"), (True, "third"))
