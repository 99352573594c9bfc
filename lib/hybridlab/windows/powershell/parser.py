"""PowerShell text to a tree: two modes, expressions and commands, as the language has them.

Scannerless, one function per construct.  Left out, and refused by name: functions, classes, ``param``, ``switch``,
expandable here-strings, redirection to files; ``&&`` and ``||`` are errors, as in 5.1.  One long file because a
recursive-descent parser is one concept and its functions call each other.
"""

from __future__ import annotations

import re

from hybridlab.windows.powershell import syntax as s
from hybridlab.windows.powershell.syntax import Block, Node, NotEmulated, SyntaxFault

_COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le", "match", "notmatch", "like", "notlike", "contains", "notcontains",
                "in", "notin", "replace", "split", "join", "is", "isnot", "as")  # fmt: skip
_OPERATORS = (*_COMPARISONS, "and", "or", "xor", "f", "band", "bor")
_OPERATOR = re.compile(rf"-c?i?({'|'.join(_OPERATORS)})\b", re.IGNORECASE)
_NUMBER = re.compile(r"(0x[0-9a-f]+|\d+(?:\.\d+)?|\.\d+)(kb|mb|gb)?", re.IGNORECASE)
_NUMBER_WORD = re.compile(r"(0x[0-9a-f]+|\d+(\.\d+)?)(kb|mb|gb)?(?![\w:/]|\.\d)", re.IGNORECASE)
"""A number where a command could stand: ``10.1.2.3`` and ``7z`` are names."""
_VARIABLE = re.compile(r"\$(?:\{([^}]+)\}|((?:env|script|global|local|private|using):)?(\w+)|([?^$]))", re.IGNORECASE)
_REFUSED = frozenset(
    (
        *("function", "filter", "class", "enum", "param", "switch", "trap", "data", "workflow"),
        *("begin", "process", "end", "dynamicparam", "using", "configuration"),
    )
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_SCALE = {"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def parse(text: str) -> Block:
    """The whole script; raises SyntaxFault and NotEmulated."""
    return _Parser(text).block(None)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._commas = True
        """A comma makes an array here; between a method's arguments it does not."""

    # -- characters ------------------------------------------------------------------------------------------

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise SyntaxFault(f"Missing closing '{text}' in statement block or type definition.", self.at)

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def space(self, *, lines: bool = False) -> None:
        """Skip blanks, comments and line continuations; with ``lines`` newlines too."""
        while not self.done:
            if self.text[self.at] in " \t\xa0" or (lines and self.text[self.at] in "\r\n"):
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
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    # -- statements ------------------------------------------------------------------------------------------

    def block(self, closing: str | None) -> Block:
        start = self.at
        statements = []
        while True:
            self.space(lines=True)
            while self.take(";"):
                self.space(lines=True)
            if self.done:
                if closing is not None:
                    raise SyntaxFault(f"Missing closing '{closing}' in statement block or type definition.", start)
                break
            if closing is not None and self.peek(closing):
                break
            statements.append(self.statement())
            self.space()
            if not (self.done or self.text[self.at] in ";\r\n" or (closing is not None and self.peek(closing))):
                if isinstance(statements[-1], (s.If, s.Loop, s.ForEach, s.Try)):
                    continue
                raise SyntaxFault(
                    f"Unexpected token '{self.text[self.at :].split()[0]}' in expression or statement.", self.at
                )
        return Block(start, self.at, tuple(statements))

    def braces(self) -> Block:
        self.space(lines=True)
        self.expect("{")
        block = self.block("}")
        self.expect("}")
        return block

    def parentheses(self) -> Node:
        self.space(lines=True)
        self.expect("(")
        self.space(lines=True)
        inner = self.statement()
        self.space(lines=True)
        self.expect(")")
        return inner

    def statement(self) -> Node:
        start = self.at
        word = _WORD.match(self.text, self.at)
        keyword = word[0].lower() if word else ""
        after = self.text[word.end() :].lstrip() if word else ""
        if keyword in _REFUSED and not after.startswith(("=", "-")):
            raise NotEmulated(f"the keyword {keyword}")
        if word and keyword in ("if", "while", "for", "foreach") and after.startswith("("):
            self.at = word.end()
            return getattr(self, f"{keyword}_statement")(start)  # type: ignore[no-any-return]
        if word and keyword in ("do", "try") and after.startswith("{"):
            self.at = word.end()
            return getattr(self, f"{keyword}_statement")(start)  # type: ignore[no-any-return]
        if word and keyword in ("break", "continue", "return", "exit", "throw"):
            self.at = word.end()
            self.space()
            value = None if self.done or self.text[self.at] in ";}\r\n)" else self.pipeline()
            return s.Jump(start, self.at, keyword, value)
        return self.pipeline()

    def if_statement(self, start: int) -> Node:
        branches = [(self.parentheses(), self.braces())]
        otherwise = None
        while True:
            mark = self.at
            self.space(lines=True)
            if re.compile(r"elseif\b", re.IGNORECASE).match(self.text, self.at):
                self.at += 6
                branches.append((self.parentheses(), self.braces()))
            elif re.compile(r"else\b", re.IGNORECASE).match(self.text, self.at):
                self.at += 4
                otherwise = self.braces()
                break
            else:
                self.at = mark
                break
        return s.If(start, self.at, tuple(branches), otherwise)

    def while_statement(self, start: int) -> Node:
        condition = self.parentheses()
        return s.Loop(start, self.at, condition, self.braces())

    def do_statement(self, start: int) -> Node:
        body = self.braces()
        self.space(lines=True)
        word = _WORD.match(self.text, self.at)
        if not word or word[0].lower() not in ("while", "until"):
            raise SyntaxFault("Missing while or until keyword in do loop.", self.at)
        self.at = word.end()
        return s.Loop(start, self.at, self.parentheses(), body, body_first=True, until=word[0].lower() == "until")

    def for_statement(self, start: int) -> Node:
        self.space()
        self.expect("(")
        parts: list[Node | None] = []
        for closing in (";", ";", ")"):
            self.space(lines=True)
            parts.append(None if self.peek(closing) else self.statement())
            self.space(lines=True)
            self.expect(closing)
        return s.Loop(start, self.at, parts[1], self.braces(), first=parts[0], each=parts[2])

    def foreach_statement(self, start: int) -> Node:
        self.space()
        self.expect("(")
        self.space()
        variable = self.variable()
        self.space()
        if not re.compile(r"in\b", re.IGNORECASE).match(self.text, self.at):
            raise SyntaxFault("Missing 'in' after variable in foreach loop.", self.at)
        self.at += 2
        self.space()
        items = self.pipeline()
        self.space()
        self.expect(")")
        return s.ForEach(start, self.at, variable.name, items, self.braces())

    def try_statement(self, start: int) -> Node:
        body = self.braces()
        catch = final = None
        while True:
            mark = self.at
            self.space(lines=True)
            word = _WORD.match(self.text, self.at)
            if word and word[0].lower() in ("catch", "finally"):
                self.at = word.end()
                self.space()
                if self.peek("["):
                    raise NotEmulated("catch with a type")
                if word[0].lower() == "catch":
                    catch = self.braces()
                else:
                    final = self.braces()
            else:
                self.at = mark
                break
        if catch is None and final is None:
            raise SyntaxFault("The Try statement is missing its Catch or Finally block.", self.at)
        return s.Try(start, self.at, body, catch, final)

    # -- pipelines and commands ------------------------------------------------------------------------------

    def pipeline(self) -> Node:
        start = self.at
        first = self.element(first=True)
        self.space()
        if not isinstance(first, s.Command):
            for operator in ("=", "+=", "-=", "*=", "/="):
                if self.peek(operator) and not self.peek("=="):
                    self.at += len(operator)
                    self.space(lines=True)
                    value = self.statement()
                    return s.Assignment(start, self.at, first, operator, value)
        elements = [first]
        silent = self.redirections()
        while self.peek("|") and not self.peek("||"):
            self.at += 1
            self.space(lines=True)
            elements.append(self.element(first=False))
            self.space()
            silent |= self.redirections()
        if self.peek("&&") or self.peek("||"):
            raise SyntaxFault(
                f"The token '{self.text[self.at : self.at + 2]}' is not a valid statement separator in this version.",
                self.at,
            )
        if len(elements) == 1 and not silent:
            return first
        return s.Pipeline(start, self.at, tuple(elements), frozenset(silent))

    def redirections(self) -> set[str]:
        silent: set[str] = set()
        while match := re.compile(r"([*1-6]?)>>?\s*(&1|\$null|nul\b)?", re.IGNORECASE).match(self.text, self.at):
            if match[2] is None:
                raise NotEmulated("redirection to a file")
            stream = match[1] or "1"
            if match[2] == "&1":
                silent.add("merge")
            else:
                silent |= (
                    {"out"}
                    if stream == "1"
                    else {"err"}
                    if stream == "2"
                    else {"out", "err"}
                    if stream == "*"
                    else set()
                )
            self.at = match.end()
            self.space()
        return silent

    def element(self, *, first: bool) -> Node:
        self.space()
        if self.done:
            raise SyntaxFault("An empty pipe element is not allowed.", self.at)
        character = self.text[self.at]
        if (
            character in "$\"'([@{!,+"
            or character.isdigit()
            or (character == "-" and self.at + 1 < len(self.text) and not self.text[self.at + 1].isspace())
        ):
            if character.isdigit() and not _NUMBER_WORD.match(self.text, self.at):
                return self.command()
            return self.expression()
        return self.command()

    def command(self) -> Node:
        start = self.at
        invoked = False
        if self.take("&") or (self.peek(". ") and self.take(".")):
            invoked = True
            self.space()
        name = self.argument()
        arguments: list[Node] = []
        while True:
            self.space()
            if self.done or self.text[self.at] in ";|}\r\n)" or re.compile(r"[*1-6]?>").match(self.text, self.at):
                break
            if self.peek("&"):
                raise NotEmulated("the background operator &")
            arguments.append(self.command_word())
        return s.Command(start, self.last_end(start, name, arguments), name, tuple(arguments), invoked)

    @staticmethod
    def last_end(start: int, name: Node, arguments: list[Node]) -> int:
        return arguments[-1].end if arguments else name.end

    def command_word(self) -> Node:
        start = self.at
        match = re.compile(r"-([A-Za-z_?]\w*)(:)?").match(self.text, self.at)
        if match:
            self.at = match.end()
            if match[2]:
                self.space()
                return s.Parameter(start, self.at, match[1], self.argument())
            if self.done or self.text[self.at] in " \t\r\n;|})>,\"'":
                return s.Parameter(start, match.end(), match[1], None)
            self.at = start
        first = self.argument()
        items = [first]
        while True:
            mark = self.at
            self.space()
            if not self.take(","):
                self.at = mark
                break
            self.space(lines=True)
            items.append(self.argument())
        return first if len(items) == 1 else s.Array(start, self.at, tuple(items))

    def argument(self) -> Node:
        character = self.text[self.at] if not self.done else ""
        if character in "\"'" or self.peek("@{") or self.peek("@(") or character in "({" or self.peek("$("):
            return self.postfix(self.primary())
        if character == "$" and _VARIABLE.match(self.text, self.at):
            mark = self.at
            node = self.postfix(self.primary())
            if self.done or self.text[self.at] in " \t\r\n;|}),>":
                return node
            self.at = mark
        if character == "@":
            raise NotEmulated("splatting")
        return self.bare_word()

    def bare_word(self) -> Node:
        start = self.at
        parts: list[str | Node] = []
        text = ""
        while not self.done and self.text[self.at] not in " \t\r\n;|{}(),\"'":
            character = self.text[self.at]
            if character == "`" and self.at + 1 < len(self.text):
                text += _ESCAPES.get(self.text[self.at + 1], self.text[self.at + 1])
                self.at += 2
            elif character == "$" and (_VARIABLE.match(self.text, self.at) or self.peek("$(")):
                parts += [text, self.interpolated()]
                text = ""
            elif character == ">" or (character in "23" and self.text[self.at + 1 : self.at + 2] == ">" and not text):
                break
            else:
                text += character
                self.at += 1
        if start == self.at:
            raise SyntaxFault(
                f"Unexpected token '{self.text[self.at : self.at + 1]}' in expression or statement.", start
            )
        if parts:
            return s.Expandable(start, self.at, tuple(part for part in [*parts, text] if part != ""))
        number = _NUMBER.fullmatch(text)
        return s.Literal(start, self.at, _number(number) if number else text)

    # -- expressions -----------------------------------------------------------------------------------------

    def expression(self) -> Node:
        return self.logical()

    def _binary(self, names: tuple[str, ...], below: str, symbols: str = "") -> Node:
        start = self.at
        left: Node = getattr(self, below)()
        while True:
            mark = self.at
            self.space()
            match = _OPERATOR.match(self.text, self.at)
            if match and match[1].lower() in names:
                operator = match[1].lower()
                self.at = match.end()
            elif self._symbol(symbols) and not (match and match[1].lower() in _OPERATORS):
                operator = self.text[self.at]
                self.at += 1
            else:
                self.at = mark
                return left
            self.space(lines=True)
            right: Node = getattr(self, below)()
            left = s.Binary(start, self.at, operator, left, right)

    def _symbol(self, symbols: str) -> bool:
        """Whether an arithmetic operator is here, and not an assignment or a step."""
        here = self.text[self.at : self.at + 1]
        return bool(here) and here in symbols and self.text[self.at + 1 : self.at + 2] not in ("=", here)

    def logical(self) -> Node:
        return self._binary(("and", "or", "xor"), "comparison")

    def comparison(self) -> Node:
        return self._binary(_COMPARISONS, "additive")

    def additive(self) -> Node:
        return self._binary((), "multiplicative", "+-")

    def multiplicative(self) -> Node:
        return self._binary((), "format", "*/%")

    def format(self) -> Node:
        return self._binary(("f",), "range")

    def range(self) -> Node:
        start = self.at
        left = self.comma()
        mark = self.at
        self.space()
        if self.take(".."):
            self.space()
            return s.Binary(start, self.at, "..", left, self.comma())
        self.at = mark
        return left

    def comma(self) -> Node:
        start = self.at
        items = [self.unary()]
        while True:
            mark = self.at
            self.space()
            if not self._commas or not self.take(","):
                self.at = mark
                break
            self.space(lines=True)
            items.append(self.unary())
        return items[0] if len(items) == 1 else s.Array(start, self.at, tuple(items))

    def unary(self) -> Node:
        start = self.at
        word = re.compile(r"-(not|split|join|bnot)\b", re.IGNORECASE).match(self.text, self.at)
        if word:
            self.at = word.end()
            self.space()
            return s.Unary(start, self.at, word[1].lower(), self.unary())
        if self.peek("++") or self.peek("--"):
            raise NotEmulated("prefix increment")
        if not self.done and self.text[self.at] in "!-+,":
            operator = self.text[self.at]
            self.at += 1
            self.space()
            return s.Unary(start, self.at, "not" if operator == "!" else operator, self.unary())
        return self.postfix(self.primary())

    def postfix(self, node: Node) -> Node:
        start = node.start
        while not self.done:
            if self.peek("[") and not isinstance(node, s.ScriptBlock):
                self.at += 1
                self.space(lines=True)
                index = self.expression()
                self.space(lines=True)
                self.expect("]")
                node = s.Index(start, self.at, node, index)
            elif self.peek("::") or (self.peek(".") and not self.peek("..")):
                static = self.take("::")
                if not static:
                    self.at += 1
                node = self.member(node, start, static=static)
            elif self.peek("++") or self.peek("--"):
                self.at += 2
                node = s.Step(start, self.at, node, 1 if self.text[self.at - 1] == "+" else -1)
            else:
                break
        return node

    def member(self, node: Node, start: int, *, static: bool) -> Node:
        word = _WORD.match(self.text, self.at)
        name: Node
        if word:
            self.at = word.end()
            name = s.Literal(word.start(), word.end(), word[0])
        elif not self.done and self.text[self.at] in "$\"'(":
            name = self.primary()
        else:
            raise SyntaxFault("Missing property name after reference operator.", self.at)
        arguments: list[Node] | None = None
        if self.take("("):
            arguments = []
            self.space(lines=True)
            while not self.peek(")"):
                arguments.append(self._argument_expression())
                self.space(lines=True)
                if not self.take(","):
                    break
                self.space(lines=True)
            self.expect(")")
        return s.Member(start, self.at, node, name, static, None if arguments is None else tuple(arguments))

    def _argument_expression(self) -> Node:
        outside, self._commas = self._commas, False
        try:
            return self.expression()
        finally:
            self._commas = outside

    def primary(self) -> Node:  # noqa: PLR0911 - one per kind
        start = self.at
        character = self.text[self.at] if not self.done else ""
        if character == "$" and self.peek("$("):
            return self._group("$(", "$")
        if character == "$":
            return self.variable()
        if character == "'":
            return self.single_quoted()
        if character == '"':
            return self.double_quoted()
        if self.peek("@'") or self.peek('@"'):
            return self.here_string()
        if self.peek("@("):
            return self._group("@(", "@")
        if self.peek("@{"):
            return self.hash()
        if character == "(":
            return self._group("(", "(")
        if character == "{":
            block = self.braces()
            return s.ScriptBlock(start, self.at, block)
        if character == "[":
            return self.type_or_cast()
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return s.Literal(start, self.at, _number(number))
        found = self.text[self.at :].split()[0] if not self.done else ""
        raise SyntaxFault(f"Unexpected token '{found}' in expression or statement.", start)

    def _group(self, opening: str, kind: str) -> Node:
        start = self.at
        self.at += len(opening)
        outside, self._commas = self._commas, True
        block = self.block(")")
        self._commas = outside
        self.expect(")")
        return s.SubExpression(start, self.at, kind, block)

    def variable(self) -> s.Variable:
        match = _VARIABLE.match(self.text, self.at)
        if not match:
            raise SyntaxFault("Variable reference is not valid.", self.at)
        self.at = match.end()
        scope = (match[2] or "").lower()
        name = (match[1] or match[3] or match[4]).lower()
        return s.Variable(match.start(), match.end(), f"env:{name}" if scope == "env:" else name)

    def single_quoted(self) -> Node:
        start = self.at
        match = re.compile(r"'((?:[^']|'')*)'").match(self.text, self.at)
        if not match:
            raise SyntaxFault("The string is missing the terminator: '.", start)
        self.at = match.end()
        return s.Literal(start, self.at, match[1].replace("''", "'"))

    def here_string(self) -> Node:
        start = self.at
        quote = self.text[self.at + 1]
        match = re.compile(rf"@{quote}[ \t]*\r?\n(.*?)\r?\n{quote}@", re.DOTALL).match(self.text, self.at)
        if not match:
            raise SyntaxFault(f"The string is missing the terminator: {quote}@.", start)
        if quote == '"' and re.search(r"[$`]", match[1]):
            raise NotEmulated("an expandable here-string")
        self.at = match.end()
        return s.Literal(start, self.at, match[1])

    def double_quoted(self) -> Node:
        start = self.at
        self.at += 1
        parts: list[str | Node] = []
        text = ""
        while True:
            if self.done:
                raise SyntaxFault('The string is missing the terminator: ".', start)
            character = self.text[self.at]
            if self.peek('""'):
                text += '"'
                self.at += 2
            elif character == '"':
                self.at += 1
                break
            elif character == "`" and self.at + 1 < len(self.text):
                text += _ESCAPES.get(self.text[self.at + 1], self.text[self.at + 1])
                self.at += 2
            elif character == "$" and (_VARIABLE.match(self.text, self.at) or self.peek("$(")):
                parts += [text, self.interpolated()]
                text = ""
            else:
                text += character
                self.at += 1
        if not parts:
            return s.Literal(start, self.at, text)
        return s.Expandable(start, self.at, tuple(part for part in [*parts, text] if part != ""))

    def interpolated(self) -> Node:
        return self._group("$(", "$") if self.peek("$(") else self.variable()

    def hash(self) -> Node:
        start = self.at
        self.at += 2
        entries = []
        while True:
            self.space(lines=True)
            while self.take(";"):
                self.space(lines=True)
            if self.take("}"):
                break
            word = _WORD.match(self.text, self.at)
            key: Node
            if word:
                self.at = word.end()
                key = s.Literal(word.start(), word.end(), word[0])
            else:
                key = self.unary()
            self.space()
            self.expect("=")
            self.space(lines=True)
            entries.append((key, self.statement()))
        return s.Hash(start, self.at, tuple(entries))

    def type_or_cast(self) -> Node:
        start = self.at
        match = re.compile(r"\[\s*([A-Za-z_][\w.]*)(\[\])?\s*\]").match(self.text, self.at)
        if not match:
            raise NotEmulated(f"the type {self.text[self.at :].split(']')[0]}]")
        self.at = match.end()
        name = re.sub(r"^system\.", "", match[1], flags=re.IGNORECASE).lower() + (match[2] or "")
        if self.peek("::"):
            return s.TypeName(start, self.at, name)
        mark = self.at
        self.space()
        if (not self.done and self.text[self.at] in "$\"'([@{") or _NUMBER.match(self.text, self.at):
            return s.Cast(start, self.at, name, self.unary())
        self.at = mark
        return s.TypeName(start, self.at, name)


def _number(match: re.Match[str]) -> object:
    text, suffix = match[1], (match[2] or "").lower()
    value = int(text, 16) if text.lower().startswith("0x") else float(text) if "." in text else int(text)
    return value * _SCALE.get(suffix, 1)
