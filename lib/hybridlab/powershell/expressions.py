"""The expression half of the grammar: operators by precedence, primaries, members and strings."""

import re
from abc import abstractmethod
from collections.abc import Callable

from hybridlab.powershell import syntax as s
from hybridlab.powershell.scanner import WORD, Scanner
from hybridlab.powershell.syntax import Block, Node, NotEmulated, SyntaxFault

_CASED = frozenset(("eq", "ne", "gt", "ge", "lt", "le", "match", "notmatch"))
_LOGICAL = frozenset(("and", "or", "xor"))
_KNOWN = _CASED | _LOGICAL | {"f"}
_OPERATOR = re.compile(r"-([A-Za-z]+)")
_UNARY = re.compile(r"-(not|split|join|bnot|[ci]split)\b", re.IGNORECASE)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class Expressions(Scanner):
    """Recursive descent; blocks and statements come from the parser that inherits this."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._commas = True
        """A comma makes an array here; between a method's arguments it does not."""

    @abstractmethod
    def block(self, closing: str | None) -> Block:
        """Statements up to ``closing``."""

    @abstractmethod
    def statement(self) -> Node:
        """One statement."""

    @abstractmethod
    def script_block(self) -> s.ScriptBlock:
        """``{...}``."""

    # -- operators -------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        node = self._named(_LOGICAL, self._comparison)
        mark = self.at
        self.space()
        if self.here == "?" and not self.following.isalpha():
            raise NotEmulated("the operators ? and ??")
        self.at = mark
        return node

    def operator(self) -> tuple[str, bool, int] | None:
        """The named operator that stands here: its name, whether it is sensitive to case, and where it ends."""
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
        return self._named(_CASED, self._additive)

    def _additive(self) -> Node:
        return self._symbols("+-", self._multiplicative)

    def _multiplicative(self) -> Node:
        return self._symbols("*/%", self._format)

    def _symbols(self, symbols: str, below: Callable[[], Node]) -> Node:
        start = self.at
        left = below()
        while True:
            mark = self.at
            self.space()
            if not self._symbol(symbols):
                self.at = mark
                return left
            operator = self.here
            self.at += 1
            self.space(lines=True)
            left = s.Binary(start, self.at, operator, left, below())

    def _symbol(self, symbols: str) -> bool:
        """Whether an arithmetic operator is here, and not an assignment, a step or a named operator."""
        if not self.here or self.here not in symbols or self.following == "=":
            return False
        if self.here in "+-" and self.following == self.here:
            return False
        return not (self.here == "-" and self.following.isalpha())

    def _format(self) -> Node:
        return self._named(frozenset("f"), self._range)

    def _range(self) -> Node:
        start = self.at
        left = self._comma()
        mark = self.at
        self.space()
        if self.take(".."):
            self.space()
            return s.Binary(start, self.at, "..", left, self._comma())
        self.at = mark
        return left

    def _comma(self) -> Node:
        start = self.at
        items = [self.unary()]
        while self._commas:
            mark = self.at
            self.space()
            if not self.take(","):
                self.at = mark
                break
            self.space(lines=True)
            items.append(self.unary())
        return items[0] if len(items) == 1 else s.Array(start, self.at, tuple(items))

    def unary(self) -> Node:
        """An operand with what stands before it."""
        start = self.at
        if word := _UNARY.match(self.text, self.at):
            self.at = word.end()
            self.space()
            return s.Unary(start, self.at, word[1].lower(), self.unary())
        if self.peek("++") or self.peek("--"):
            raise NotEmulated("the operators ++ and --")
        if self.here and self.here in "!-+,":
            operator = self.here
            self.at += 1
            self.space()
            return s.Unary(start, self.at, "not" if operator == "!" else operator, self.unary())
        return self.postfix(self.primary())

    # -- primaries -------------------------------------------------------------------------------------------

    def postfix(self, node: Node) -> Node:
        """Indexes and members after an operand."""
        start = node.start
        if (
            isinstance(node, s.Literal)
            and not isinstance(node.value, str)
            and re.match(r"\.(?!\.)|\[", self.text[self.at : self.at + 2])
        ):
            raise NotEmulated("a member or an index of a number without parentheses")
        while not self.done:
            if self.peek("[") and not isinstance(node, s.ScriptBlock):
                self.at += 1
                outside, self._commas = self._commas, True
                self.space(lines=True)
                index = self.expression()
                self.space(lines=True)
                self._commas = outside
                self.expect("]")
                node = s.Index(start, self.at, node, index)
            elif self.peek("::") or (self.peek(".") and not self.peek("..")):
                static = self.take("::")
                if not static:
                    self.at += 1
                node = self._member(node, start, static=static)
            elif self.peek("++") or self.peek("--"):
                raise NotEmulated("the operators ++ and --")
            elif self.peek("?.") or self.peek("?["):
                raise NotEmulated("the operators ?. and ?[]")
            else:
                break
        return node

    def _member(self, node: Node, start: int, *, static: bool) -> Node:
        word = WORD.match(self.text, self.at)
        name: Node
        if word:
            self.at = word.end()
            name = s.Literal(word.start(), word.end(), word[0])
        elif self.here and self.here in "$\"'(":
            name = self.primary()
        else:
            raise SyntaxFault("Missing property name after reference operator.", self.at)
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
                if self.peek(")"):
                    raise SyntaxFault("Missing expression after ','.", self.at)
            self.expect(")")
        elif self.peek("{"):
            raise NotEmulated("a script block after a member's name")
        return s.Member(start, self.at, node, name, static, None if arguments is None else tuple(arguments))

    def _argument(self) -> Node:
        outside, self._commas = self._commas, False
        try:
            return self.expression()
        finally:
            self._commas = outside

    def primary(self) -> Node:  # noqa: PLR0911 - one per kind
        """A variable, literal, group, hash, script block, type or cast."""
        start = self.at
        if self.peek("$("):
            return self.group("$(", "$")
        if self.starts_variable():
            return self.variable()
        if self.here == "'":
            return self._single_quoted()
        if self.here == '"':
            return self._double_quoted()
        if self.peek("@'") or self.peek('@"'):
            raise NotEmulated("here-strings")
        if self.peek("@("):
            return self.group("@(", "@")
        if self.peek("@{"):
            return self._hash()
        if self.here == "(":
            return self.group("(", "(")
        if self.here == "{":
            return self.script_block()
        if self.here == "[":
            return self.type_or_cast()
        if number := self.number():
            return s.Literal(start, self.at, number[0])
        raise self.unexpected()

    def group(self, opening: str, kind: str) -> Node:
        """``(...)``, ``$(...)`` or ``@(...)``."""
        start = self.at
        self.at += len(opening)
        block = self.block(")")
        self.expect(")")
        if kind == "(" and len(block.statements) != 1:
            raise SyntaxFault("An expression was expected after '('.", start)
        return s.SubExpression(start, self.at, kind, block)

    def _hash(self) -> Node:
        start = self.at
        self.at += 2
        outside, self._commas = self._commas, True
        entries = []
        while True:
            self.space(lines=True)
            while self.take(";"):
                self.space(lines=True)
            if self.take("}"):
                break
            word = WORD.match(self.text, self.at)
            key: Node
            if word:
                self.at = word.end()
                key = s.Literal(word.start(), word.end(), word[0])
            else:
                key = self.unary()
            self.space()
            if not self.take("="):
                raise SyntaxFault("Missing '=' operator after key in hash literal.", self.at)
            self.space(lines=True)
            entries.append((key, self.statement()))
            self.space()
            if not (self.done or self.here in ";}\r\n"):
                raise self.unexpected()
        self._commas = outside
        return s.Hash(start, self.at, tuple(entries))

    def type_name(self) -> str:
        """``[Name]`` or ``[Name[]]``, in lower case and without ``System.``."""
        match = re.compile(r"\[\s*([A-Za-z_][\w.]*)(\[\])?\s*\]").match(self.text, self.at)
        if not match:
            raise NotEmulated(f"the type {self.text[self.at :].split(']')[0]}]")
        self.at = match.end()
        return re.sub(r"^system\.", "", match[1], flags=re.IGNORECASE).lower() + (match[2] or "")

    def type_or_cast(self) -> Node:
        """``[type]`` as a value, or before an operand."""
        start = self.at
        name = self.type_name()
        if self.peek("::"):
            return s.TypeName(start, self.at, name)
        mark = self.at
        self.space()
        operand = self.here and (self.here in "$\"'([@{!,+" or self.here.isdigit())
        negative = self.here == "-" and (self.following.isdigit() or self.following in "$(")
        if operand or negative or (self.here == "." and self.following.isdigit()) or _UNARY.match(self.text, self.at):
            return s.Cast(start, self.at, name, self.unary())
        self.at = mark
        return s.TypeName(start, self.at, name)

    # -- strings ---------------------------------------------------------------------------------------------

    def _single_quoted(self) -> Node:
        start = self.at
        match = re.compile(r"'((?:[^']|'')*)'").match(self.text, self.at)
        if not match:
            raise SyntaxFault("The string is missing the terminator: '.", start)
        self.at = match.end()
        return s.Literal(start, self.at, match[1].replace("''", "'"))

    def _double_quoted(self) -> Node:
        start = self.at
        self.at += 1
        return self._expanded(start, None, here=False)

    def _expanded(self, start: int, end: int | None, *, here: bool) -> Node:
        """The inside of a double-quoted string, up to its quote or, of a here-string, up to ``end``."""
        parts: list[str | Node] = []
        text = ""
        while end is None or self.at < end:
            if self.done:
                raise SyntaxFault('The string is missing the terminator: ".', start)
            if not here and self.peek('""'):
                text += '"'
                self.at += 2
            elif not here and self.here == '"':
                self.at += 1
                break
            elif self.here == "`" and self.following:
                text += self.escape()
            elif self.starts_variable() or self.peek("$("):
                parts += [text, self.interpolated()]
                text = ""
            else:
                text += self.here
                self.at += 1
        if not parts:
            return s.Literal(start, self.at, text)
        return s.Expandable(start, self.at, tuple(part for part in [*parts, text] if part != ""))

    def escape(self) -> str:
        """What a backtick and the character after it mean."""
        following = self.following
        if following in "eu":
            raise NotEmulated(f"the escape `{following}")
        self.at += 2
        return _ESCAPES.get(following, following)

    def interpolated(self) -> Node:
        """A variable or ``$(...)`` inside a string or a word."""
        return self.group("$(", "$") if self.peek("$(") else self.variable()
