# SPDX-License-Identifier: Apache-2.0
"""The command half of the grammar: pipelines, commands and their arguments."""

import re

from hybridlab.powershell import syntax as s
from hybridlab.powershell.expressions import Expressions
from hybridlab.powershell.scanner import looks_like_number, number_of
from hybridlab.powershell.syntax import Node, NotEmulated

_PARAMETER = re.compile(r"-([A-Za-z_]\w*)")
_REDIRECTION = re.compile(r"[*1-6]?[<>]")
_ENDS = " \t\xa0\r\n;|&)}"
_WORD_ENDS = " \t\xa0\r\n;|&(){},"


class Commands(Expressions):
    """The parser of statements that are pipelines."""

    def pipeline(self) -> Node:
        start = self.at
        first = self._element()
        self.space()
        if not isinstance(first, s.Command):
            for operator in ("=", "+="):
                if self.peek(operator) and not self.peek("=="):
                    self.at += len(operator)
                    self.space(lines=True)
                    return s.Assignment(start, self.at, first, operator, self.statement())
        elements = [first]
        while self.here == "|" and self.following != "|":
            self.at += 1
            self.space(lines=True)
            mark = self.at
            node = self._element()
            if not isinstance(node, s.Command):
                self.at = mark
                raise self.unexpected()
            self.space()
            elements.append(node)
        if _REDIRECTION.match(self.text, self.at):
            raise NotEmulated("redirection")
        if self.here and self.here in "&|":
            raise NotEmulated(f"the operator {self.text[self.at :].split()[0]}")
        if len(elements) == 1 and not isinstance(first, s.Command):
            return first
        return s.Pipeline(start, elements[-1].end, tuple(elements))

    def _element(self) -> Node:
        self.space()
        if self.done or self.here in "|);}":
            raise self.unexpected()
        if self.here in "\"'([{!,+$@" or (self.here == "-" and not self.following.isspace()):
            return self.expression()
        mark = self.at
        if self.number() is not None:
            self.at = mark
            return self.expression()
        return self._command()

    def _command(self) -> Node:
        """Return a command's name and its arguments."""
        start = self.at
        if self.take("&"):
            self.space()
        outside = self._commas
        self._commas = True
        name = self._argument_value()
        arguments: list[Node] = []
        while True:
            self.space()
            if self.done or self.here in ";|&}\r\n)":
                break
            if _REDIRECTION.match(self.text, self.at):
                raise NotEmulated("redirection")
            arguments.append(self._word())
        self._commas = outside
        return s.Command(
            start, arguments[-1].end if arguments else name.end, name, tuple(arguments)
        )

    def _word(self) -> Node:
        start = self.at
        match = _PARAMETER.match(self.text, self.at)
        if match:
            self.at = match.end()
            if self.done or self.here in _ENDS + "({,":
                return s.Parameter(start, match.end(), match[1])
            if self.here in ":.[\"'$@?":
                raise NotEmulated(f"the argument {self.text[start:].split()[0]}")
            self.at = start
        return self.listed(self._argument_value)

    def _argument_value(self) -> Node:
        if self.here and self.here in "\"'({":
            return self.postfix(self.primary())
        start = self.at
        if self.here == "$":
            node = self.postfix(self.variable())
        else:
            while not self.done and self.here not in _WORD_ENDS and self.here not in "`$\"'<>":
                self.at += 1
            node = self._bare(start, self.text[start : self.at])
        if not self.done and self.here not in _WORD_ENDS:
            raise NotEmulated(f"the argument {self.text[start:].split()[0]}")
        return node

    def _bare(self, start: int, word: str) -> Node:
        if not word or word in ("--", "--%") or word[0] == "@":
            raise self.unexpected()
        return s.Literal(start, self.at, number_of(word) if looks_like_number(word) else word)
