# SPDX-License-Identifier: Apache-2.0
"""The parser of statements: PowerShell text to a syntax tree.

It is a recursive descent without tokens, in four layers: characters (``scanner``), ``expressions``,
``commands``, and the keywords here. Every keyword except ``if``, ``else``, ``while``, ``foreach``,
``try``, ``catch`` and ``exit`` is refused with its name in the error.
"""

import re

from hybridlab.powershell import syntax as s
from hybridlab.powershell.commands import Commands
from hybridlab.powershell.scanner import WORD
from hybridlab.powershell.syntax import Block, Node, NotEmulated

_REFUSED = frozenset(
    (
        *(
            "filter",
            "class",
            "enum",
            "trap",
            "data",
            "workflow",
            "param",
            "switch",
            "function",
            "for",
            "do",
        ),
        *(
            "begin",
            "process",
            "end",
            "clean",
            "dynamicparam",
            "using",
            "configuration",
            "parallel",
            "sequence",
        ),
        *(
            "break",
            "continue",
            "return",
            "throw",
            "elseif",
            "finally",
            "else",
            "catch",
            "until",
            "in",
        ),
    )
)
_SKIPPED = re.compile(r"\A(?:\s|<#.*?#>|#[^\n]*)*", re.DOTALL)
_COMPOUND = (s.If, s.While, s.ForEach, s.Try)


def parse(text: str) -> Block:
    """Return the tree of a whole script. Raise NotEmulated."""
    return _Parser(text).block("")


class _Parser(Commands):
    def block(self, closing: str) -> Block:
        """Return the statements up to ``closing``, or to the end of the script."""
        start = self.at
        outside = self._commas
        self._commas = True
        statements: list[Node] = []
        while True:
            self.space(lines=True)
            while self.take(";"):
                self.space(lines=True)
            if self.done or (closing and self.peek(closing)):
                break
            statements.append(self.statement())
            self.space()
            ended = self.done or self.here in ";\r\n" or (closing and self.peek(closing))
            if not ended and not isinstance(statements[-1], _COMPOUND):
                raise self.unexpected()
        self._commas = outside
        if closing:
            self.expect(closing)
        return Block(start, self.at, tuple(statements))

    def _braces(self) -> Block:
        self.space(lines=True)
        self.expect("{")
        return self.block("}")

    def script_block(self) -> s.ScriptBlock:
        return s.ScriptBlock(self.at, self.at, self._braces())

    def statement(self) -> Node:
        """Return a statement, without the separator after it."""
        start = self.at
        if self.here == ":":
            raise NotEmulated("a label")
        keyword = self.keyword()
        after = self.text[self.at + len(keyword) :]
        if keyword in _REFUSED and not after.startswith("-"):
            raise NotEmulated(f"the keyword {keyword}")
        opening = _SKIPPED.sub("", after, count=1)[:1]
        if keyword in ("if", "while", "foreach") and opening == "(":
            self.at += len(keyword)
            return {"if": self._if, "while": self._while, "foreach": self._foreach}[keyword](start)
        if keyword == "try" and opening == "{":
            self.at += len(keyword)
            return self._try(start)
        if keyword == "exit" and not after.startswith("-"):
            self.at += len(keyword)
            self.space()
            status = None if self.done or self.here in ";}\r\n)" else self.pipeline()
            return s.End(start, self.at, status)
        return self.pipeline()

    def _parentheses(self) -> Node:
        self.space(lines=True)
        self.expect("(")
        self.space(lines=True)
        inner = self.statement()
        self.space(lines=True)
        self.expect(")")
        return inner

    def _follows(self, keyword: str) -> bool:
        """Skip a keyword that may continue the statement, and the newlines before the keyword."""
        mark = self.at
        self.space(lines=True)
        if WORD.match(self.text, self.at) and self.keyword() == keyword:
            self.at += len(keyword)
            return True
        self.at = mark
        return False

    def _if(self, start: int) -> Node:
        condition = self._parentheses()
        body = self._braces()
        otherwise = self._braces() if self._follows("else") else None
        return s.If(start, self.at, condition, body, otherwise)

    def _while(self, start: int) -> Node:
        return s.While(start, self.at, self._parentheses(), self._braces())

    def _foreach(self, start: int) -> Node:
        self.space()
        self.expect("(")
        self.space()
        variable = self.variable()
        self.space()
        if self.keyword() != "in":
            raise self.unexpected()
        self.at += len("in")
        self.space()
        items = self.pipeline()
        self.space(lines=True)
        self.expect(")")
        return s.ForEach(start, self.at, variable, items, self._braces())

    def _try(self, start: int) -> Node:
        body = self._braces()
        if not self._follows("catch"):
            raise self.unexpected()
        catch = self._braces()
        if not catch.statements:
            raise NotEmulated("an empty catch block")
        return s.Try(start, self.at, body, catch)
