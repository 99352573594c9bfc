# SPDX-License-Identifier: Apache-2.0
"""Calico's selector language: parsed once, evaluated on labels, printed in one canonical form.

``a == 'b'``, ``a != 'b'``, ``a in {'b', 'c'}``, ``a not in {...}``, ``has(a)``, ``a contains 'b'``, ``a starts with
'b'``, ``a ends with 'b'``, ``all()``, ``global()``, ``!``, ``&&``, ``||`` and parentheses.  ``&&`` binds tighter than
``||``.  A missing label fails every comparison except ``!=`` and ``not in``.  The empty selector means ``all()``.
Kubernetes' own label selectors are in ``label_selectors``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

Labels = Mapping[str, str]
Rename = Callable[[str], str]

NAMESPACE_LABEL = "projectcalico.org/namespace"
"""Calico gives every namespaced endpoint and network set this label; an object without it is
global."""


class SelectorError(ValueError):
    """A selector that cannot be parsed; the message contains the text and the position."""


class Selector:
    """A parsed selector. Equal selectors have the same text."""

    def matches(self, labels: Labels) -> bool:
        raise NotImplementedError

    def renamed(self, rename: Rename) -> Selector:
        """Return the same selector with other label names: endpoints carry a namespace's labels
        with a prefix."""
        raise NotImplementedError

    def required(self) -> Iterator[tuple[str, str]]:
        """Yield (label, value) pairs that every match has. The pairs serve an index, and may be
        incomplete."""
        return iter(())


@dataclass(frozen=True)
class All(Selector):
    """``all()``."""

    def matches(self, labels: Labels) -> bool:
        return True

    def renamed(self, rename: Rename) -> Selector:
        return self

    def __str__(self) -> str:
        return "all()"


@dataclass(frozen=True)
class Global(Selector):
    """``global()``: matches endpoints and sets without a namespace."""

    def matches(self, labels: Labels) -> bool:
        return NAMESPACE_LABEL not in labels

    def renamed(self, rename: Rename) -> Selector:
        return self

    def __str__(self) -> str:
        return "global()"


@dataclass(frozen=True)
class Has(Selector):
    """``has(label)``."""

    label: str

    def matches(self, labels: Labels) -> bool:
        return self.label in labels

    def renamed(self, rename: Rename) -> Selector:
        return Has(rename(self.label))

    def __str__(self) -> str:
        return f"has({self.label})"


@dataclass(frozen=True)
class Compare(Selector):
    """``label OPERATOR 'value'``."""

    label: str
    operator: str
    value: str

    def matches(self, labels: Labels) -> bool:
        actual = labels.get(self.label)
        if self.operator == "==":
            return actual == self.value
        if self.operator == "!=":
            return actual != self.value
        if actual is None:
            return False
        if self.operator == "contains":
            return self.value in actual
        if self.operator == "starts with":
            return actual.startswith(self.value)
        return actual.endswith(self.value)

    def renamed(self, rename: Rename) -> Selector:
        return Compare(rename(self.label), self.operator, self.value)

    def required(self) -> Iterator[tuple[str, str]]:
        if self.operator == "==":
            yield self.label, self.value

    def __str__(self) -> str:
        return f"{self.label} {self.operator} {_quoted(self.value)}"


@dataclass(frozen=True)
class In(Selector):
    """``label in {...}``, or ``not in`` when negated."""

    label: str
    values: frozenset[str]
    negated: bool = False

    def matches(self, labels: Labels) -> bool:
        return (labels.get(self.label) in self.values) is not self.negated

    def renamed(self, rename: Rename) -> Selector:
        return In(rename(self.label), self.values, self.negated)

    def __str__(self) -> str:
        word = "not in" if self.negated else "in"
        return (
            f"{self.label} {word} {{{', '.join(_quoted(value) for value in sorted(self.values))}}}"
        )


@dataclass(frozen=True)
class Not(Selector):
    """``!operand``."""

    operand: Selector

    def matches(self, labels: Labels) -> bool:
        return not self.operand.matches(labels)

    def renamed(self, rename: Rename) -> Selector:
        return Not(self.operand.renamed(rename))

    def __str__(self) -> str:
        return f"!{self.operand}"


@dataclass(frozen=True)
class And(Selector):
    """``(a && b)``."""

    operands: tuple[Selector, ...]

    def matches(self, labels: Labels) -> bool:
        return all(operand.matches(labels) for operand in self.operands)

    def renamed(self, rename: Rename) -> Selector:
        return And(tuple(operand.renamed(rename) for operand in self.operands))

    def required(self) -> Iterator[tuple[str, str]]:
        for operand in self.operands:
            yield from operand.required()

    def __str__(self) -> str:
        return f"({' && '.join(map(str, self.operands))})"


@dataclass(frozen=True)
class Or(Selector):
    """``(a || b)``."""

    operands: tuple[Selector, ...]

    def matches(self, labels: Labels) -> bool:
        return any(operand.matches(labels) for operand in self.operands)

    def renamed(self, rename: Rename) -> Selector:
        return Or(tuple(operand.renamed(rename) for operand in self.operands))

    def __str__(self) -> str:
        return f"({' || '.join(map(str, self.operands))})"


@lru_cache(maxsize=4096)
def parse(text: str) -> Selector:
    """Parse a selector.  Raise SelectorError."""
    parser = _Parser(text)
    if parser.at_end():
        return All()
    selector = parser.alternatives()
    parser.expect_end()
    return selector


def problem(text: str) -> str | None:
    """Return the reason why a text is no valid selector; None if it is valid."""
    try:
        parse(text)
    except SelectorError as error:
        return str(error)
    return None


def error_in(text: str, position: int, what: str) -> SelectorError:
    """Return the error about a text that is wrong from ``position`` on."""
    return SelectorError(f"selector {text!r}: {what} at position {position}")


def _quoted(value: str) -> str:
    return f"'{value}'" if '"' in value else f'"{value}"'


_SPACE = re.compile(r"[ \t]*")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_./-]+")
_CALL = re.compile(r"(has|all|global)\([ \t]*")
_END_OF_CALL = re.compile(r"[ \t]*\)")
_STRING = re.compile(r"\"[^\"]*\"|'[^']*'")
_SYMBOL = re.compile(r"&&|\|\||==|!=|[!(){},]")
_OPERATORS = re.compile(
    r"(contains|starts[ \t]*with[ \t]*|ends[ \t]*with[ \t]*|not[ \t]*in[ \t]*|in)(?![A-Za-z0-9_./-])"
)
_COMPARISONS = frozenset({"==", "!=", "contains", "starts with", "ends with"})
_TWO_WORDS = {"startswith": "starts with", "endswith": "ends with", "notin": "not in"}
_MAX_LABEL_LENGTH = 512


@dataclass(frozen=True)
class _Token:
    kind: str
    """``label``, ``string``, ``symbol``, ``operator``, ``has``, ``all`` or ``global``."""
    text: str
    at: int
    end: int


class _Tokens:
    """Splits a text into tokens as Calico's tokenizer does: a word is an operator only directly
    after a label."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.found: list[_Token] = []
        while self._skip() < len(text):
            self.found.append(self._next())

    def _skip(self) -> int:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _next(self) -> _Token:
        start = self._at
        if found := self._take(_SYMBOL):
            return _Token("symbol", found.group(), start, self._at)
        if self._text[start] in "'\"":
            if found := self._take(_STRING):
                return _Token("string", found.group()[1:-1], start, self._at)
            raise error_in(self._text, start, "unterminated string")
        if self.found and self.found[-1].kind == "label":
            if found := self._take(_OPERATORS):
                word = "".join(found.group().split())
                return _Token("operator", _TWO_WORDS.get(word, word), start, self._at)
            raise error_in(self._text, start, f"expected an operator after {self.found[-1].text!r}")
        if found := self._take(_CALL):
            return self._call(found.group(1), start)
        return _Token("label", self._label(start), start, self._at)

    def _call(self, name: str, start: int) -> _Token:
        label = self._label(self._at) if name == "has" else ""
        if not self._take(_END_OF_CALL):
            raise error_in(self._text, self._at, f"expected ) after {name}(")
        return _Token(name, label, start, self._at)

    def _label(self, start: int) -> str:
        found = self._take(_IDENTIFIER)
        if not found:
            raise error_in(self._text, start, f"unexpected {self._text[start : start + 1]!r}")
        if len(found.group()) > _MAX_LABEL_LENGTH:
            raise error_in(
                self._text, start, f"a label of more than {_MAX_LABEL_LENGTH} characters"
            )
        return found.group()


class _Parser:
    """Recursive descent over the tokens of a selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _Tokens(text).found
        self._at = 0

    def _unexpected(self, wanted: str) -> SelectorError:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None:
            return error_in(self._text, len(self._text), f"expected {wanted}, found the end")
        return error_in(
            self._text, token.at, f"expected {wanted}, found {self._text[token.at : token.end]!r}"
        )

    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def expect_end(self) -> None:
        if not self.at_end():
            raise self._unexpected("&&, || or the end")

    def alternatives(self) -> Selector:
        """Parse ``a || b``."""
        operands = [self._conjunction()]
        while self._take_symbol("||"):
            operands.append(self._conjunction())
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _conjunction(self) -> Selector:
        operands = [self._operation()]
        while self._take_symbol("&&"):
            operands.append(self._operation())
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _operation(self) -> Selector:
        negated = False
        while self._take_symbol("!"):
            negated = not negated
        selector = self._primary()
        return Not(selector) if negated else selector

    def _primary(self) -> Selector:
        if self._take_symbol("("):
            inside = self.alternatives()
            self._expect_symbol(")")
            return inside
        if (has := self._take("has")) is not None:
            return Has(has)
        if self._take("all") is not None:
            return All()
        if self._take("global") is not None:
            return Global()
        label = self._take("label")
        if label is None:
            raise self._unexpected("a label, has(), all(), global() or (")
        return self._comparison(label)

    def _comparison(self, label: str) -> Selector:
        operator = self._take("operator") or next(
            (op for op in ("==", "!=") if self._take_symbol(op)), ""
        )
        if operator in _COMPARISONS:
            value = self._take("string")
            if value is None:
                raise self._unexpected("a quoted string")
            return Compare(label, operator, value)
        if operator in {"in", "not in"}:
            return In(label, self._values(), negated=operator == "not in")
        raise self._unexpected("an operator (==, !=, in, not in, contains, starts with, ends with)")

    def _values(self) -> frozenset[str]:
        """Return the values in braces; a comma may follow the last value."""
        self._expect_symbol("{")
        values: set[str] = set()
        while (value := self._take("string")) is not None:
            values.add(value)
            if not self._take_symbol(","):
                break
        self._expect_symbol("}")
        return frozenset(values)

    def _take(self, kind: str) -> str | None:
        if self._at < len(self._tokens) and self._tokens[self._at].kind == kind:
            self._at += 1
            return self._tokens[self._at - 1].text
        return None

    def _take_symbol(self, symbol: str) -> bool:
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind == "symbol" and token.text == symbol:
                self._at += 1
                return True
        return False

    def _expect_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise self._unexpected(symbol)
