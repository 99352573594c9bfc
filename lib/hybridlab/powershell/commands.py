"""The command half of the grammar: pipelines, commands, their arguments and redirections."""

import re

from hybridlab.powershell import syntax as s
from hybridlab.powershell.expressions import Expressions
from hybridlab.powershell.scanner import NUMBER, number_value
from hybridlab.powershell.syntax import Node, NotEmulated, SyntaxFault

_PARAMETER = re.compile(r"-([A-Za-z_?][\w?-]*)(:)?")
_REDIRECTION = re.compile(r"([*1-6]?)(>>?)\s*(?:&([1-6])|(\$null\b))?", re.IGNORECASE)
_ENDS = " \t\xa0\r\n;|&)}"
_WORD_ENDS = " \t\xa0\r\n;|&(){},"


class Commands(Expressions):
    """Statements that are pipelines."""

    def pipeline(self) -> Node:
        node = self._pipeline()
        if self.peek("&&") or self.peek("||"):
            raise NotEmulated(f"the operator {self.text[self.at : self.at + 2]}")
        if self.here == "&":
            raise NotEmulated("the background operator &")
        return node

    def _pipeline(self) -> Node:
        start = self.at
        if self.here == "|":
            raise NotEmulated("a pipe at the beginning of a line")
        first = self._element()
        self.space()
        if not isinstance(first, s.Command):
            for operator in ("=", "+=", "-=", "*=", "/=", "%="):
                if self.peek(operator) and not self.peek("=="):
                    self.at += len(operator)
                    self.space(lines=True)
                    return s.Assignment(start, self.at, first, operator, self.statement())
            if self.peek("??="):
                raise NotEmulated("the operator ??=")
        elements = [s.Element(first.start, first.end, first, self._redirections())]
        while self.here == "|" and self.following != "|":
            self.at += 1
            self.space(lines=True)
            node = self._element()
            if not isinstance(node, s.Command):
                words = "Expressions are only allowed as the first element of a pipeline."
                raise SyntaxFault(words, node.start)
            self.space()
            elements.append(s.Element(node.start, node.end, node, self._redirections()))
        if len(elements) == 1 and not elements[0].redirections and not isinstance(first, s.Command):
            return first
        return s.Pipeline(start, elements[-1].end, tuple(elements))

    def _redirections(self) -> tuple[s.Redirection, ...]:
        found: list[s.Redirection] = []
        self.space()
        while match := _REDIRECTION.match(self.text, self.at):
            if match[3] is None and match[4] is None:
                raise NotEmulated("redirection to a file")
            if match[3] is not None and (match[3] != "1" or match[2] == ">>"):
                raise NotEmulated(f"the redirection {match[0]}")
            self.at = match.end()
            found.append(s.Redirection(match[1] or "1", match[3] is not None))
            self.space()
        if self.here == "<":
            raise NotEmulated("redirection of input")
        return tuple(found)

    def _element(self) -> Node:
        self.space()
        if self.done or self.here in "|);}":
            raise SyntaxFault("An empty pipe element is not allowed.", self.at)
        if self.here in "\"'([{!,+" or self.peek("@(") or self.peek("@{") or self.peek("@'") or self.peek('@"'):
            return self.expression()
        if self.here == "$" and (self.starts_variable() or self.peek("$(")):
            return self.expression()
        if self.here == "-" and self.following and not self.following.isspace():
            return self.expression()
        mark = self.at
        if self.number():
            self.at = mark
            return self.expression()
        return self.command()

    def command(self) -> Node:
        """A command's name and its arguments, up to what ends it."""
        start = self.at
        operator = ""
        if self.here == "&" or (self.here == "." and self.following in " \t{'\"$("):
            operator = self.here
            self.at += 1
            self.space()
        outside, self._commas = self._commas, True
        name = self._argument_value()
        arguments: list[Node] = []
        while True:
            self.space()
            if self.done or self.here in ";|&}\r\n)" or _REDIRECTION.match(self.text, self.at):
                break
            if self.here == "<":
                raise NotEmulated("redirection of input")
            arguments.append(self._word())
        self._commas = outside
        return s.Command(start, arguments[-1].end if arguments else name.end, name, tuple(arguments), operator)

    def _word(self) -> Node:
        start = self.at
        if self.here == ",":
            raise NotEmulated("an argument that begins with a comma")
        match = _PARAMETER.match(self.text, self.at)
        if match:
            self.at = match.end()
            if match[2]:
                self.space()
                return s.Parameter(start, self.at, match[1], self._list())
            if self.done or self.here in _ENDS + "({,":
                return s.Parameter(start, match.end(), match[1], None)
            if self.here in ".[\"'$@":
                raise NotEmulated(f"the argument {self.text[start:].split()[0]}")
            self.at = start
        return self._list()

    def _list(self) -> Node:
        start = self.at
        items = [self._argument_value()]
        while True:
            mark = self.at
            self.space()
            if not self.take(","):
                self.at = mark
                break
            self.space(lines=True)
            items.append(self._argument_value())
        return items[0] if len(items) == 1 else s.Array(start, self.at, tuple(items))

    def _argument_value(self) -> Node:
        if self.here and (self.here in "\"'({" or self.peek("$(") or (self.here == "@" and self.following in "({'\"")):
            return self.postfix(self.primary())
        if self.starts_variable():
            mark = self.at
            node = self.variable()
            if self.done or self.here in _WORD_ENDS or self.here in ".[":
                return self.postfix(node)
            if self.peek("::") or self.peek("++") or self.peek("--"):
                raise NotEmulated(f"the argument {self.text[mark:].split()[0]}")
            self.at = mark
        if self.here == "@":
            raise NotEmulated("an argument that begins with @")
        return self._bare_word()

    def _bare_word(self) -> Node:
        start = self.at
        parts: list[str | Node] = []
        text = ""
        while not self.done and self.here not in _WORD_ENDS:
            if self.here == "`" and self.following:
                if self.following in "\r\n":
                    break
                text += self.escape()
            elif self.starts_variable() or self.peek("$("):
                parts += [text, self.interpolated()]
                text = ""
            elif self.here in "\"'" and self.at > start:
                inner = self.primary()
                parts += [text, inner]
                text = ""
            elif self.here in "<>":
                raise NotEmulated(f"{self.here} inside a word")
            else:
                text += self.here
                self.at += 1
        if start == self.at:
            raise self.unexpected()
        if parts:
            return s.Expandable(start, self.at, tuple(part for part in [*parts, text] if part != ""))
        if text in ("--", "--%"):
            raise NotEmulated(f"the argument {text}")
        if text[0] in "\u2013\u2014\u2015":
            raise NotEmulated("typographic dashes")
        number = NUMBER.fullmatch(text.removeprefix("-"))
        if number and self.text[start : self.at] == text:
            value = number_value(number)
            if text.startswith("-") and isinstance(value, (int, float)):
                value = type(value)(-value)
            return s.Literal(start, self.at, value, text)
        return s.Literal(start, self.at, text)
