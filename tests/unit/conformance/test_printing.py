# SPDX-License-Identifier: Apache-2.0
"""Printed text: nothing that a cluster wrote commands a terminal or a CI system."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest

from conformance import printing
from conformance.errors import Nonconformance, SuiteError
from conformance.printing import Door, block, line, plain, single

LIB = Path(printing.__file__).parent

CONTROLS = {
    "title of the terminal": ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
    "clear screen": ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
    "hidden text": ("\x1b[8mhidden\x1b[0m", "\\x1b[8mhidden\\x1b[0m"),
    "link": ("\x1b]8;;http://x\x1b\\y", "\\x1b]8;;http://x\\x1b\\y"),
    "return to the line's beginning": ("red\rgreen", "red\\rgreen"),
    "backspace": ("red\b\b\bok", "red\\x08\\x08\\x08ok"),
    "bell and null": ("\x07\x00", "\\x07\\x00"),
    "delete": ("a\x7fb", "a\\u007fb"),
    "C1: control sequence in one byte": ("\x9b2J", "\\u009b2J"),
    "C1: next line": ("a\x85b", "a\\u0085b"),
    "line separator": ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
    "bidi override": ("\u202egnp.exe\u202c", "\\u202egnp.exe\\u202c"),
    "bidi isolate": ("\u2066a\u2069", "\\u2066a\\u2069"),
    "right-to-left mark": ("a\u200fb", "a\\u200fb"),
    "width zero": ("a\u200bb\ufeffc", "a\\u200bb\\ufeffc"),
    "tag letters": ("\U000e0041", "\\udb40\\udc41"),
    "half of a pair": ("\ud800", "\\ud800"),
    "vertical tab and form feed": ("a\vb\fc", "a\\x0bb\\x0cc"),
}


@pytest.mark.parametrize(("text", "shown"), CONTROLS.values(), ids=CONTROLS)
def test_control_characters_are_shown_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown
    assert block(text) == shown
    assert all(char.isprintable() for char in line(text))


def test_files_keep_line_breaks_tabs_and_letters_of_all_scripts() -> None:
    text = "a\tb\nc\u00a0d\n\u043f\u043e\u0434 \u30dd\u30c3\u30c9 \u0646\u200c\u0647 \U0001f600"
    assert plain(text) == text
    assert plain("a\r\nb") == "a\nb"
    assert plain("::error::x\n##vso[task]") == "::error::x\n##vso[task]"


def test_json_stays_the_same_json() -> None:
    value = {"\u202ekey": '\x1b[2J \x85 \u2028 \x7f \U000e0041 \u00e4 \\ "'}
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(plain(text)) == value
    assert all(char.isprintable() for char in plain(text))


@pytest.mark.parametrize(
    "end", ["\t", "\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"]
)
def test_names_and_conditions_are_one_line(end: str) -> None:
    assert single(f"10.0{end}::error::x") == "10.0 ::error::x"
    assert line(f"10.0{end}::error::x") == "10.0 ::error::x"
    assert line(f"{end}::error::x") == " : :error::x"


COMMANDS = {
    "GitHub": ("::error file=a::b", ": :error file=a::b"),
    "GitHub, after blanks": (" \t ::set-output name=a::b", " \t : :set-output name=a::b"),
    "GitHub, after a no-break space": ("\u00a0::debug::", "\u00a0: :debug::"),
    "GitHub, a later line": ("all well\n  ::stop-commands::x", "all well\n  : :stop-commands::x"),
    "GitHub, more colons": (":::error::", ": ::error::"),
    "GitHub, of old": ("all ##[add-path]/tmp", "all ## [add-path]/tmp"),
    "Azure": ("##vso[task.complete result=Failed;]x", "##vso [task.complete result=Failed;]x"),
    "Azure, anywhere": ("node ##vso[task.setvariable]", "node ##vso [task.setvariable]"),
    "Azure, any case": ("##VSO[task.setvariable]", "##VSO [task.setvariable]"),
    "Azure, marks": ("####[error]x", "#### [error]x"),
    "TeamCity": ("##teamcity[buildStop]", "##teamcity [buildStop]"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), COMMANDS.values(), ids=COMMANDS)
def test_commands_of_ci_systems_are_broken_up(text: str, shown: str) -> None:
    assert block(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "suites/dns/test_names.py::test_a[windows] ends",
        "from fe80::1 to fd00::5",
        "  - fd00::1: no answer",
        "#1 [x] #[a] ## a [b] # #[c]",
        "a :: b",
    ],
)
def test_addresses_and_tests_are_left_alone(text: str) -> None:
    assert line(text) == text


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("text", "shown"), [*COMMANDS.values(), ("a::b ::c", "a::b ::c")])
def test_a_stream_breaks_up_what_is_written_in_pieces(text: str, shown: str, own: bool) -> None:
    stream = io.StringIO()
    door = Door(stream, own=own)
    for char in text:
        door.write(char)
    assert stream.getvalue() == shown


def test_a_long_line_does_not_begin_anew() -> None:
    stream = io.StringIO()
    door = Door(stream)
    for _ in range(100):
        door.write("  ")
    door.write("::error::")
    assert stream.getvalue().strip() == ": :error::"
    door.write("\n" + "x" * 100)
    door.write("::y ##")
    door.write("vso")
    door.write("[z")
    assert stream.getvalue().endswith("x::y ##vso [z")


def test_pytests_own_colours_pass_and_nothing_else() -> None:
    stream = io.StringIO()
    door = Door(stream, own=True)
    door.write("\r\x1b[1m\x1b[31mFAILED\x1b[0m\x1b[39;49;00m")
    door.write("\x1b]9;4;1;50\x1b\\")
    assert stream.getvalue() == "\r\x1b[1m\x1b[31mFAILED\x1b[0m\x1b[39;49;00m\x1b]9;4;1;50\x1b\\"
    door.write("\n\x1b[31m::error::\x1b]0;x\x07\x1b[8mx\x1b[2Ja\rb")
    shown = "\n\x1b[31m: :error::\\x1b]0;x\\x07\\x1b[8mx\\x1b[2Ja\\rb"
    assert stream.getvalue().endswith(shown)
    plain_stream = io.StringIO()
    Door(plain_stream).write("\x1b[31mred\x1b[0m\r")
    assert plain_stream.getvalue() == "\\x1b[31mred\\x1b[0m\\r"


@pytest.mark.parametrize("kind", [SuiteError, Nonconformance])
def test_no_message_of_an_error_holds_a_command(kind: type[Exception]) -> None:
    message = "first\n::error::x\x1b[2J ##vso[task.complete]"
    assert str(kind(message)) == "first\n: :error::x\\x1b[2J ##vso [task.complete]"


STREAMS = ("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__")


def _prints(path: Path) -> list[int]:
    """Lines of a file that print past the door."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        named = node.func if isinstance(node, ast.Call) else None
        past = isinstance(named, ast.Name) and named.id == "print"
        of_sys = isinstance(node, ast.Attribute) and ast.unparse(node) in STREAMS
        if past or of_sys:
            found.append(getattr(node, "lineno", 0))
    return found


GUARDED = {"cli", "printing.py"}
"""The commands, within ``printing.guarded()``; the door itself."""


def test_nothing_is_printed_past_the_door() -> None:
    allowed = {
        "run/interruption.py": 2,  # flushes
        "plugin/limit.py": 1,  # a flush
        "offline/commands.py": 4,  # whole documents, printed within the guard of cli
        "jobs/commands.py": 2,  # a document and an archive's lines, within the same guard
    }
    found = {
        path.relative_to(LIB).as_posix(): lines
        for path in LIB.rglob("*.py")
        if path.relative_to(LIB).parts[0] not in GUARDED and "programs" not in path.parts
        if (lines := _prints(path))
    }
    assert {name: len(lines) for name, lines in found.items()} == allowed, found
