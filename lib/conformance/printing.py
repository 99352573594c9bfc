# SPDX-License-Identifier: Apache-2.0
"""The filter for all text that leaves the suite: no terminal and no CI system may obey text from a
cluster. The owner of any node, pod or API server can write a cluster's names, conditions, logs and
answers. :func:`plain` is for files, :func:`line` and :func:`block` are for terminals and the logs
of CI systems, :func:`single` makes a name one line as soon as the name is read, and :class:`Door`
guards a stream that other code writes to."""

import itertools
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

KEPT = "\t\n\u00a0\u200c\u200d"
"""Characters that are harmless, although Unicode's categories call them not printable. Some scripts
need the last two."""
_SUSPECT = re.compile(r"[^ -~\t\n]")
_BREAKS = re.compile("\r\n|[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Matches the characters at which ``str.splitlines`` and the readers of CI logs end a line, and
tabs."""
_BRACKET = re.compile(r"(##\w*)\[")
"""Matches ``##vso[`` and ``##[`` of Azure Pipelines, anywhere in a line, and TeamCity's commands.
"""
_COLOUR = r"\x1b\[[0-79]{0,3}(?:;[0-79]{1,3})*m"
"""Matches changes of colour or weight. Code 8 is not matched, since it hides text."""
_COLONS = re.compile(rf"^((?:[^\S\n]|{_COLOUR})*:):", re.MULTILINE)
"""Matches ``::error`` of GitHub Actions at the beginning of a line, also after blanks."""
_BLANK = re.compile(rf"(?:[^\S\n]|{_COLOUR})*(:?)")
_OWN = re.compile(rf"\A\r|{_COLOUR}|\x1b\]9;4;[0-9;]*\x1b\\")
"""Matches control sequences that pytest itself writes: repeating a line, colours, progress."""
_TAIL = 64
"""The number of characters of an unfinished line that are kept, so that they are checked together
with the text that continues the line."""


def plain(text: str) -> str:
    """Make all characters visible that would control a terminal, reverse the direction of text, or
    be invalid in XML.

    Line breaks (Windows line breaks become usual ones) and tabs stay. The value of JSON text stays
    the same.
    """
    return text if text.isprintable() else _SUSPECT.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable() or char in KEPT:
        return char
    return repr(char)[1:-1] if char < " " else json.dumps(char)[1:-1].replace("\x7f", "\\u007f")


def single(text: str) -> str:
    """Return a name or a condition as one line without control characters."""
    return text if text.isprintable() else plain(_BREAKS.sub(" ", text))


def within(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with every text in it changed, including the names of fields."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): within(each, change) for name, each in value.items()}
    return [within(each, change) for each in value] if isinstance(value, list) else value


def block(text: str) -> str:
    """Return a text for a terminal; its line breaks stay."""
    return _disarmed(plain(text))


def line(text: str) -> str:
    """Return a text for a terminal, as one line."""
    return _disarmed(single(text))


def _disarmed(text: str) -> str:
    """Break up the prefixes of CI systems' commands, so that no CI system obeys them."""
    return _COLONS.sub(r"\1 :", _BRACKET.sub(r"\1 [", text))


def say(*lines: str, error: bool = False) -> None:
    """Print lines in one write, so that no other thread's lines come between them; ``error``: to
    standard error."""
    text = "".join(f"{line(each)}\n" for each in lines)
    print(text, end="", file=sys.stderr if error else sys.stdout, flush=True)


class Door:
    """A text stream that removes everything with which a text could control a terminal or a CI
    system."""

    def __init__(self, stream: TextIO, *, own: bool = False) -> None:
        """Set up the filter. ``own``: allow the writer's own colours, and returns to the beginning
        of a line."""
        self._stream = stream
        self._own = own
        self._begun = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text. It is checked together with the beginning of its line."""
        kept = list(_OWN.finditer(text)) if self._own else []
        ends = [0, *(end for found in kept for end in found.span()), len(text)]
        pieces = [text[begin:end] for begin, end in itertools.pairwise(ends)]
        pieces[::2] = map(plain, pieces[::2])
        whole = _disarmed(self._begun + "".join(pieces))
        self._stream.write(whole[len(self._begun) :])
        begun = whole.rpartition("\n")[2]
        if len(begun) > _TAIL:  # keep only what matters for the text that follows
            blank = _BLANK.fullmatch(begun)
            begun = f" {blank[1]}" if blank else f"x{begun[-_TAIL:]}"
        self._begun = begun
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several texts."""
        for each in lines:
            self.write(each)


@contextmanager
def guarded() -> Iterator[None]:
    """Return a context in which all printed text, including tracebacks, is filtered."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Door(stream)) for stream in before)
    try:
        yield
    except Exception:  # an unexpected error is printed here, while the output is still filtered
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        sys.stdout, sys.stderr = before
