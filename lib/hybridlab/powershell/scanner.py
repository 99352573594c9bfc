# SPDX-License-Identifier: Apache-2.0
"""Characters of a script: blanks, comments, words, variables and numbers."""

import re

from hybridlab.powershell.syntax import NotEmulated, Variable

INT_MAX = (1 << 31) - 1
"""The largest Int32; a script may contain no larger number here."""
WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(
    r"(0x[0-9a-f]+|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)[ldnsyu]{0,2}([kmgtp]b)?(?!\w)", re.IGNORECASE
)
_VARIABLE = re.compile(r"\$(?:(env):)?(\w+)(?![:?\w])", re.IGNORECASE)
_TYPOGRAPHIC = re.compile("[\u2013-\u2015\u2018-\u201e]")


class Scanner:
    """A script and the parser's position in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        if _TYPOGRAPHIC.search(text):
            raise NotEmulated("typographic quotes and dashes")

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.unexpected()

    def unexpected(self) -> NotEmulated:
        """Return NotEmulated for the text at the current position, which PowerShell may accept or
        refuse."""
        found = self.text[self.at :].split()[:1]
        return NotEmulated(
            f"the text at character {self.at + 1}: {''.join(found) or 'the end of the script'}"
        )

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    @property
    def here(self) -> str:
        return self.text[self.at : self.at + 1]

    @property
    def following(self) -> str:
        return self.text[self.at + 1 : self.at + 2]

    def keyword(self) -> str:
        """Return the word at this place in lower case.

        A comment that touches it would be part of the word.
        """
        word = WORD.match(self.text, self.at)
        if word and self.text.startswith("<#", word.end()):
            raise self.unexpected()
        return word[0].lower() if word else ""

    def space(self, *, lines: bool = False) -> None:
        """Skip blanks and comments, with ``lines`` newlines too.

        A block comment may contain newlines in any case.
        """
        while not self.done:
            if self.here in " \t\xa0" or (lines and self.here in "\r\n"):
                self.at += 1
            elif self.peek("<#"):
                end = self.text.find("#>", self.at + 2)
                if end < 0:
                    raise self.unexpected()
                self.at = end + 2
            elif self.here == "#":
                if self.text[self.at :].lower().startswith("#requires"):
                    raise NotEmulated("#Requires")
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def number(self) -> int | None:
        """Return the number at this place. Return None, and skip nothing, if there is no number."""
        match = _NUMBER.match(self.text, self.at)
        if not match:
            return None
        value = number_of(match[0])
        self.at = match.end()
        if self.here in (".", "["):
            raise self.unexpected()
        return value

    def variable(self) -> Variable:
        """Return the variable at this place: ``$name`` or ``$env:NAME``."""
        match = _VARIABLE.match(self.text, self.at)
        if not match:
            raise NotEmulated(f"the variable {self.text[self.at :].split()[0]}")
        start = self.at
        self.at = match.end()
        return Variable(start, self.at, match[2].lower(), bool(match[1]))


def looks_like_number(word: str) -> bool:
    """Return true if PowerShell reads a whole word as a number."""
    return bool(_NUMBER.fullmatch(word.removeprefix("-")))


def number_of(text: str) -> int:
    """Return a decimal Int32. Raise NotEmulated for every other number."""
    if not re.fullmatch(r"-?(0|[1-9]\d*)", text) or int(text.lstrip("-")) > INT_MAX:
        raise NotEmulated(f"the number {text}")
    return int(text)
