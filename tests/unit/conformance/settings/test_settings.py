# SPDX-License-Identifier: Apache-2.0
"""Timings have units, errors in overrides name the line, and every setting has a description."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from conformance import settings as package
from conformance.errors import UsageProblem
from conformance.settings import OsTimings, RunTimings, Settings, Toleration, load_timings

UNITS = re.compile(r"\b(seconds?|tries|attempts|execs|agents|workers)\b", re.IGNORECASE)


def test_windows_is_given_no_less_patience_than_linux() -> None:
    timings = load_timings()
    for field in dataclasses.fields(OsTimings):
        assert getattr(timings.windows, field.name) >= getattr(timings.linux, field.name), (
            field.name
        )


def test_a_windows_attempt_outlasts_its_second_syn() -> None:
    assert load_timings().windows.tcp_give_up > 3.0


def test_an_override_changes_its_entries_only(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("windows:\n  policy_effect: 2 min\n  poll_every: 250 ms\n  agree: 5 tries\n")
    changed, packaged = load_timings(file), load_timings()
    assert (changed.windows.policy_effect, changed.windows.poll_every, changed.windows.agree) == (
        120.0,
        0.25,
        5,
    )
    assert changed.windows.pod_ready == packaged.windows.pod_ready
    assert changed.linux == packaged.linux


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("windows:\n  policy_effct: 5 s\n", ":2: windows.policy_effct: unknown key; windows has pod_ready"),
        ("mac:\n  agree: 1 tries\n", ":1: unknown section 'mac'; there are linux, windows, run"),
        ("linux:\n  hold: 5\n", ":2: linux.hold: expected a time such as \"5 s\", \"250 ms\" or \"2 min\", found"),
        ("linux:\n  hold: 5 hours\n", ":2: linux.hold: expected a time"),
        ("linux:\n  hold: 0 s\n", ":2: linux.hold: expected a time"),
        ("linux:\n  agree: 3 s\n", ":2: linux.agree: expected a count such as \"3 tries\", found \"3 s\""),
        ("linux:\n  agree: 1.5 tries\n", ":2: linux.agree: expected a count"),
        ("linux:\n  hold: [5 s]\n", ":2: linux.hold: expected a time"),
        ("linux: 5 s\n", ":1: expected entries of linux as a mapping"),
        ("- linux\n", ":1: expected sections linux, windows, run as a mapping"),
        ("linux: {hold: 5 s\n", "not YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_an_override_is_one_line_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(UsageProblem) as caught:
        load_timings(file)
    message = str(caught.value)
    assert f"--timings {file}" in message
    assert words in message
    assert "\n" not in message


def test_a_missing_override_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot be read: No such file"):
        load_timings(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("os=windows:NoSchedule", Toleration(key="os", value="windows", effect="NoSchedule")),
        ("dedicated", Toleration(key="dedicated")),
        ("example.com/x:NoExecute", Toleration(key="example.com/x", effect="NoExecute")),
    ],
)
def test_tolerations_are_read(text: str, expected: Toleration) -> None:
    assert Toleration.parse(text) == expected


@pytest.mark.parametrize("text", ["", "=x", "a:Never", "a=b=c"])
def test_wrong_tolerations_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="--tolerate"):
        Toleration.parse(text)


def test_every_setting_says_what_it_means_and_timings_their_unit() -> None:
    folder = Path(package.__file__).parent
    timed = {OsTimings.__name__, RunTimings.__name__}
    seen = 0
    for path in folder.glob("*.py"):
        for cls in (
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
        ):
            for statement, following in zip(cls.body, [*cls.body[1:], None], strict=True):
                if not isinstance(statement, ast.AnnAssign) or cls.name == "Timings":
                    continue
                text = following.value.value if isinstance(following, ast.Expr) else ""  # type: ignore[attr-defined]
                assert text, f"{cls.name}.{ast.unparse(statement.target)} has no docstring"
                assert cls.name not in timed or UNITS.search(text), text
                seen += 1
    assert seen > 25


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().keep = True  # type: ignore[misc]


@pytest.mark.parametrize("os", ["linux", "windows"])
@pytest.mark.parametrize("lab", [False, True], ids=["field", "lab"])
def test_a_row_that_an_outage_of_two_give_ups_could_fill_is_refused(
    tmp_path: Path, os: str, lab: bool
) -> None:
    sound = load_timings(lab=lab).of(os)  # type: ignore[arg-type]
    outage = 2 * sound.tcp_give_up - sound.syn_again
    assert sound.agree_span + sound.hold > outage
    file = tmp_path / "t.yaml"
    file.write_text(f"{os}:\n  agree_span: {round(1000 * (outage - sound.hold))} ms\n")
    with pytest.raises(
        UsageProblem, match=rf"{os}.agree_span \+ {os}.hold is .* an outage of two give-up times"
    ):
        load_timings(file, lab=lab)


@pytest.mark.parametrize(
    ("entry", "what"), [("syn_again", "a lost packet"), ("refused_within", "a refusal")]
)
def test_an_attempt_that_cannot_tell_a_denial_from_less_is_refused(
    tmp_path: Path, entry: str, what: str
) -> None:
    file = tmp_path / "t.yaml"
    entries = {"tcp_give_up": "2 s", "syn_again": "1 s", "refused_within": "1 s", entry: "2 s"}
    file.write_text(
        "windows:\n" + "".join(f"  {name}: {value}\n" for name, value in entries.items())
    )
    with pytest.raises(
        UsageProblem,
        match=rf"windows.tcp_give_up is 2 s, .* windows.{entry}, which is 2 s: {what} would look",
    ):
        load_timings(file)


def test_windows_has_more_patience_with_agents_than_linux_and_a_lab_less_than_a_cluster() -> None:
    field, lab = load_timings(), load_timings(lab=True)
    assert (field.windows.agent_hello, field.windows.agent_slot, field.windows.agent_silence) == (
        60.0,
        180.0,
        45.0,
    )
    assert field.run.exec_connect == 15.0
    for name in ("agent_hello", "agent_slot", "agent_silence"):
        assert getattr(field.linux, name) < getattr(field.windows, name)
        assert getattr(lab.windows, name) < getattr(field.windows, name)
