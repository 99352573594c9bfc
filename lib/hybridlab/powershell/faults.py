# SPDX-License-Identifier: Apache-2.0
"""PowerShell's errors, and the text that Windows PowerShell 5.1 prints for them."""

import textwrap
from dataclasses import dataclass

from hybridlab.powershell.objects import NetObject
from hybridlab.powershell.syntax import Node

WIDTH = 80
"""The line width, in columns, of a PowerShell host without a console."""


@dataclass(eq=False)
class Fault(Exception):
    """A PowerShell error: an ErrorRecord."""

    message: str
    category: str = "NotSpecified: (:) [], RuntimeException"
    identity: str = "RuntimeException"
    source: str = ""
    """The name of the cmdlet that failed; empty for expressions."""
    at: Node | None = None
    terminating: bool = True
    """True if the error ends the statement; a non-terminating error only sets ``$?``."""
    kind: str = ""
    """The exception's type; empty if it is not known."""
    stops: bool = False
    """True if the error ends the script because the preference is Stop."""
    details: str = ""
    """The text that replaces the exception's message; empty: none."""
    inner: NetObject | None = None
    """The exception within the exception; None: it is not known."""


def _position(script: str, at: Node) -> list[str]:
    """Return ``At line:1 char:1`` and the marked line."""
    before = script[: at.start]
    line = before.count("\n") + 1
    column = at.start - (before.rfind("\n") + 1)
    text = script.split("\n")[line - 1].rstrip("\r")
    shown, mark = _cut(text, column, max(min(at.end - at.start, len(text) - column), 1))
    return [f"At line:{line} char:{column + 1}", f"+ {shown}", f"+ {mark}"]


def _cut(text: str, column: int, length: int, limit: int = 69) -> tuple[str, str]:
    """Shorten a long line around the error, with dots in place of the missing text."""
    if len(text) <= limit:
        return text, " " * column + "~" * length
    keep = limit - 2
    start = 0 if column + length <= keep or column < keep // 2 else column - 12
    shown = ("... " if start else "") + text[start : start + keep]
    if start + keep < len(text):
        shown += " ..."
    offset = column - start + (4 if start else 0)
    return shown, " " * offset + "~" * max(1, min(length, keep - (column - start)))


def _wrap(line: str) -> list[str]:
    """Break the long lines of an error at the host's width, as 5.1 does."""
    lines = []
    while len(line) > WIDTH - 1:
        lines.append(line[: WIDTH - 1] + " ")
        line = "   " + line[WIDTH - 1 :]
    return [*lines, line]


def render(fault: Fault, script: str) -> list[str]:
    """Return the lines that go to standard error."""
    lines = f"{fault.source} : {fault.details or fault.message}".removeprefix(" : ").splitlines()
    if fault.at is not None:
        lines += _position(script, fault.at)
    lines.append(f"    + CategoryInfo          : {fault.category}")
    lines.append(f"    + FullyQualifiedErrorId : {fault.identity}")
    return [piece for line in lines for piece in _wrap(line)] + [" "]


def fold(text: str, width: int) -> list[str]:
    """Return a property's value for the list view, with lines broken at blanks where possible."""
    lines = []
    for line in text.splitlines() or [""]:
        lines += textwrap.wrap(
            line,
            width,
            drop_whitespace=False,
            replace_whitespace=False,
            expand_tabs=False,
            break_on_hyphens=False,
        ) or [""]
    return [line.rstrip() if line.strip() else "" for line in lines]


def call_fault(
    method: str, count: int, message: str, identity: str, inner: NetObject | None = None
) -> Fault:
    """Return PowerShell's error for an exception of a .NET method."""
    return Fault(
        f'Exception calling "{method}" with "{count}" argument(s): "{message}"',
        "NotSpecified: (:) [], MethodInvocationException",
        identity,
        kind="System.Management.Automation.MethodInvocationException",
        inner=inner,
    )


def error_record(fault: Fault) -> NetObject:
    """Return ``$_`` of a catch block."""
    exception = NetObject(fault.kind or "System.Exception", Message=fault.message)
    if fault.inner is not None:
        exception.put("InnerException", fault.inner)
    return NetObject(
        "System.Management.Automation.ErrorRecord",
        text=fault.details or fault.message,
        Exception=exception,
        FullyQualifiedErrorId=fault.identity,
    )
