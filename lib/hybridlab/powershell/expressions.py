# SPDX-License-Identifier: Apache-2.0
"""The expression half of the grammar: operators by precedence, primaries, members and strings."""

import re
from abc import abstractmethod
from collections.abc import Callable

from hybridlab.powershell import syntax as s
from hybridlab.powershell.scanner import WORD, Scanner
from hybridlab.powershell.syntax import Node, NotEmulated

_CASED = frozenset(("eq", "ne", "gt", "ge", "lt", "le", "match", "notmatch"))
_LOGICAL = frozenset(("and", "or"))
_KNOWN = _CASED | _LOGICAL | {"f"}
_OPERATOR = re.compile(r"-([A-Za-z]+)")
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_DOUBLE = re.compile(r'"((?:[^"]|"")*)"')
_TYPE = re.compile(r"\[\s*([A-Za-z_][\w.]*)\s*\]")


class Expressions(Scanner):
    """A recursive descent parser. The parser that inherits it reads blocks and statements."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._commas = True
        """True where a comma makes an array; false between a method's arguments."""

    @abstractmethod
    def statement(self) -> Node:
        """Return one statement."""

    @abstractmethod
    def script_block(self) -> s.ScriptBlock:
        """Return a script block, ``{...}``."""

    def expression(self) -> Node:
        node = self._named(_LOGICAL, self._comparison)
        mark = self.at
        self.space()
        if self.here and self.here in "-*/%?" and self.following != "=":
            raise NotEmulated(f"the operator {self.text[self.at :].split()[0]}")
        self.at = mark
        return node

    def operator(self) -> tuple[str, bool, int] | None:
        """Return the named operator at this position: its name, whether it is case-sensitive, and
        its end."""
        match = _OPERATOR.match(self.text, self.at)
        if not match:
            return None
        name = match[1].lower()
        if name in _KNOWN:
            return name, False, match.end()
        if name[0] in "ci" and name[1:] in _CASED:
            return name[1:], name[0] == "c", match.end()
        raise NotEmulated(f"operator -{name}")

    def _named(self, names: frozenset[str], below: Callable[[], Node]) -> Node:
        start = self.at
        left = below()
        while True:
            mark = self.at
            self.space()
            found = self.operator()
            if found is None or found[0] not in names:
                self.at = mark
                return left
            self.at = found[2]
            self.space(lines=True)
            left = s.Binary(start, self.at, found[0], left, below(), found[1])

    def _comparison(self) -> Node:
        return self._named(_CASED, self._sum)

    def _sum(self) -> Node:
        start = self.at
        left = self._format()
        while True:
            mark = self.at
            self.space()
            if self.here != "+" or self.following in ("=", "+"):
                self.at = mark
                return left
            self.at += 1
            self.space(lines=True)
            left = s.Binary(start, self.at, "+", left, self._format())

    def _format(self) -> Node:
        return self._named(frozenset("f"), lambda: self.listed(self._operand))

    def listed(self, item: Callable[[], Node]) -> Node:
        """Return a single item, or an array of items that are separated by commas."""
        start = self.at
        items = [item()]
        while self._commas:
            mark = self.at
            self.space()
            if not self.take(","):
                self.at = mark
                break
            self.space(lines=True)
            items.append(item())
        return items[0] if len(items) == 1 else s.Array(start, self.at, tuple(items))

    def _operand(self) -> Node:
        if self.here and self.here in "!-+,":
            raise NotEmulated(f"the operator {self.text[self.at :].split()[0]} before an operand")
        return self.postfix(self.primary())

    def postfix(self, node: Node) -> Node:
        """Return an operand with the indexes and members that follow it."""
        start = node.start
        while not self.done:
            if self.here == "[" and not isinstance(node, s.ScriptBlock):
                self.at += 1
                outside = self._commas
                self._commas = True
                self.space(lines=True)
                index = self.expression()
                self.space(lines=True)
                self._commas = outside
                self.expect("]")
                node = s.Index(start, self.at, node, index)
            elif self.peek("::") or (self.here == "." and self.following != "."):
                static = self.take("::") or not self.take(".")
                node = self._member(node, start, static=static)
            elif self.peek("++") or self.peek("--") or self.peek("..") or self.here == "?":
                raise NotEmulated(f"the operator {self.text[self.at :].split()[0]}")
            else:
                break
        return node

    def _member(self, node: Node, start: int, *, static: bool) -> Node:
        word = WORD.match(self.text, self.at)
        if not word:
            raise self.unexpected()
        self.at = word.end()
        arguments: list[Node] | None = None
        if self.take("("):
            arguments = []
            self.space(lines=True)
            while not self.peek(")"):
                arguments.append(self._argument())
                self.space(lines=True)
                if not self.take(","):
                    break
                self.space(lines=True)
            self.expect(")")
        elif self.here == "{":
            raise NotEmulated("a script block after a member's name")
        return s.Member(
            start, self.at, node, word[0], static, None if arguments is None else tuple(arguments)
        )

    def _argument(self) -> Node:
        outside = self._commas
        self._commas = False
        try:
            return self.expression()
        finally:
            self._commas = outside

    def primary(self) -> Node:
        """Return a variable, literal, group, empty hashtable, script block, type or cast."""
        start = self.at
        match self.here:
            case "$":
                return self.variable()
            case "'" | '"':
                return self._quoted()
            case "(":
                return self._group()
            case "{":
                return self.script_block()
            case "[":
                return self.type_or_cast()
        if self.take("@{"):
            self.space(lines=True)
            if not self.take("}"):
                raise NotEmulated("a hashtable with entries")
            return s.Hash(start, self.at)
        number = self.number()
        if number is None:
            raise self.unexpected()
        return s.Literal(start, self.at, number)

    def _group(self) -> Node:
        start = self.at
        self.at += 1
        outside = self._commas
        self._commas = True
        self.space(lines=True)
        inner = self.statement()
        self.space(lines=True)
        self._commas = outside
        self.expect(")")
        return s.Group(start, self.at, inner)

    def type_or_cast(self) -> Node:
        """Return ``[type]`` as a value, or as a cast of the operand after it."""
        start = self.at
        match = _TYPE.match(self.text, self.at)
        if not match:
            raise NotEmulated(f"the type {self.text[self.at :].split(']')[0]}]")
        self.at = match.end()
        name = re.sub(r"^system\.", "", match[1], flags=re.IGNORECASE).lower()
        if self.peek("::"):
            return s.TypeName(start, self.at, name)
        self.space()
        return s.Cast(start, self.at, name, self._operand())

    def _quoted(self) -> Node:
        """Parse a quoted text. Raise NotEmulated for ``$`` and a backtick in double quotes."""
        start = self.at
        quote = self.here
        match = (_SINGLE if quote == "'" else _DOUBLE).match(self.text, self.at)
        if not match:
            raise self.unexpected()
        if quote == '"' and re.search(r"`|\$[\w?^${(]", match[1]):
            raise NotEmulated("$ and ` in a double-quoted text")
        self.at = match.end()
        return s.Literal(start, self.at, match[1].replace(quote * 2, quote))
