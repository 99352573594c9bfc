"""Characters of a script: blanks, comments, words, variables and numbers."""

import re

from hybridlab.powershell.numbers import Long, long_or_int
from hybridlab.powershell.syntax import NotEmulated, SyntaxFault, Variable

NUMBER = re.compile(
    r"(?P<text>0x[0-9a-f]+|(?:\d+\.\d+|\d+\.(?![.\w])|\d+|\.\d+)(?:e[+-]?\d+)?)(?P<suffix>[ldnsyu]{0,2})(?P<scale>kb|mb|gb|tb|pb)?",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"[\w?]+")
_AFTER_NUMBER = re.compile(r"[\w:]")
_SCALE = {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40, "pb": 1 << 50}
_TYPOGRAPHIC = re.compile("[\u2018-\u201e]")
_SCOPES = frozenset(("", "global", "script", "local", "env"))


class Scanner:
    """A script and the place where the parser is."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        if _TYPOGRAPHIC.search(text):
            raise NotEmulated("typographic quotes")

    def peek(self, text: str) -> bool:
        """Whether ``text`` stands here."""
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        """Skip ``text`` if it stands here."""
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def expect(self, text: str) -> None:
        """Skip ``text``, which must stand here."""
        if not self.take(text):
            raise SyntaxFault(f"Missing closing '{text}' in statement block or type definition.", self.at)

    def unexpected(self) -> SyntaxFault:
        """The error for what stands here."""
        found = self.text[self.at :].split()[:1]
        return SyntaxFault(f"Unexpected token '{''.join(found)}' in expression or statement.", self.at)

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
        """The word that stands here, in lower case."""
        word = WORD.match(self.text, self.at)
        return word[0].lower() if word else ""

    def space(self, *, lines: bool = False) -> None:
        """Skip blanks, comments and line continuations; with ``lines`` newlines too."""
        while not self.done:
            if self.here in " \t\xa0" or (lines and self.here in "\r\n"):
                self.at += 1
            elif self.peek("`\n"):
                self.at += 2
            elif self.peek("`\r\n"):
                self.at += 3
            elif self.peek("<#"):
                end = self.text.find("#>", self.at)
                if end < 0:
                    raise SyntaxFault("The terminator '#>' is missing from the multiline comment.", self.at)
                self.at = end + 2
            elif self.peek("#"):
                if re.compile(r"#requires\b", re.IGNORECASE).match(self.text, self.at):
                    raise NotEmulated("#Requires")
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def number(self) -> tuple[object, str] | None:
        """The number that stands here, with its text; None (and nothing skipped) when a word goes on after it."""
        match = NUMBER.match(self.text, self.at)
        if not match:
            return None
        following = self.text[match.end() : match.end() + 1]
        if _AFTER_NUMBER.match(following) or (following == "." and self.text[match.end() + 1 :][:1].isdigit()):
            return None
        self.at = match.end()
        return number_value(match), match[0]

    def starts_variable(self) -> bool:
        """Whether a variable stands here, not a mere dollar sign."""
        return self.here == "$" and bool(re.match(r"[\w?^${]", self.following)) and not self.peek("$(")

    def variable(self) -> Variable:
        """``$name``, ``$drive:name``, ``${any name}``; question marks belong to names."""
        start = self.at
        self.at += 1
        if self.take("{"):
            end = self.text.find("}", self.at)
            if end <= self.at or "`" in self.text[self.at : end] or "{" in self.text[self.at : end]:
                raise SyntaxFault("Variable reference is not valid.", start)
            path = self.text[self.at : end]
            self.at = end + 1
        elif self.here in ("$", "^"):
            raise NotEmulated(f"the variable ${self.here}")
        elif self.here == "?":
            self.at += 1
            path = "?"
        else:
            path = self._path(start)
        scope, colon, name = path.partition(":")
        if not colon:
            scope, name = "", path
        if not name:
            words = "Variable reference is not valid. ':' was not followed by a valid variable name character. "
            raise SyntaxFault(words + "Consider using ${} to delimit the name.", start)
        return Variable(start, self.at, name.lower(), self._scope(scope.lower()))

    def _path(self, start: int) -> str:
        while match := _NAME.match(self.text, self.at):
            self.at = match.end()
            if self.here == ":" and self.following != ":":
                self.at += 1
        return self.text[start + 1 : self.at]

    @staticmethod
    def _scope(scope: str) -> str:
        if scope in _SCOPES:
            return "global" if scope == "script" else scope
        if len(scope) == 1 or scope in ("private", "using", "variable", "function", "alias", "cert", "hklm", "hkcu",
                                        "temp", "wsman"):  # fmt: skip
            raise NotEmulated(f"the variable ${scope}:")
        return "nowhere"  # a drive that does not exist: null


def number_value(match: re.Match[str]) -> object:
    """Int32, Int64 or double, as the literal's size and suffix say."""
    text, suffix, scale = match["text"].lower(), match["suffix"].lower(), (match["scale"] or "").lower()
    if suffix not in ("", "l"):
        raise NotEmulated(f"the number {match[0]}")
    if text.startswith("0x"):
        value: int | float = int(text, 16)
        if value >= 1 << 31:
            raise NotEmulated(f"the number {match[0]}")
    elif re.fullmatch(r"\d+", text):
        value = int(text)
    else:
        value = float(text)
    scaled = value * _SCALE[scale]
    if isinstance(scaled, float):
        if suffix:
            raise NotEmulated(f"the number {match[0]}")
        return scaled
    if scaled >= 1 << 63:
        raise NotEmulated(f"the number {match[0]}")
    return Long(scaled) if suffix else long_or_int(scaled)
