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
"""Calico gives every namespaced endpoint and network set this label; what lacks it is global."""


class SelectorError(ValueError):
    """A selector that cannot be parsed; the message says where in which text."""


class Selector:
    """A parsed selector.  Equal selectors print alike."""

    def matches(self, labels: Labels) -> bool:
        """Whether labels satisfy it."""
        raise NotImplementedError

    def renamed(self, rename: Rename) -> Selector:
        """The same selector on other label names (a namespace's labels carry a prefix at its endpoints)."""
        raise NotImplementedError

    def required(self) -> Iterator[tuple[str, str]]:
        """(label, value) pairs without which nothing can match; used to index, may be incomplete."""
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
    """``global()``: what belongs to no namespace."""

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
        return f"{self.label} {word} {{{', '.join(_quoted(value) for value in sorted(self.values))}}}"


@dataclass(frozen=True)
class Not(Selector):
    """``!operand``."""

    operand: Selector

    def matches(self, labels: Labels) -> bool:
        return not self.operand.matches(labels)

    def renamed(self, rename: Rename) -> Selector:
        return Not(self.operand.renamed(rename))

    def __str__(self) -> str:
        return f"!{self.operand}" if isinstance(self.operand, Has | All | Global | And | Or) else f"!({self.operand})"


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


def both(*selectors: Selector | None) -> Selector:
    """All of them; ``all()`` when none is left."""
    parts: list[Selector] = []
    for selector in selectors:
        if isinstance(selector, And):
            parts.extend(selector.operands)
        elif selector is not None and not isinstance(selector, All):
            parts.append(selector)
    if not parts:
        return All()
    return parts[0] if len(parts) == 1 else And(tuple(parts))


@lru_cache(maxsize=4096)
def parse(text: str) -> Selector:
    """Parse a selector.  Raises SelectorError."""
    parser = _Parser(text)
    if parser.peek() is None:
        return All()
    selector = parser.alternatives()
    parser.expect_end()
    return selector


def problem(text: str) -> str | None:
    """What is wrong with a selector's syntax; None: nothing."""
    try:
        parse(text)
    except SelectorError as error:
        return str(error)
    return None


def _quoted(value: str) -> str:
    return f"'{value}'" if '"' in value else f'"{value}"'


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"[^"]*"|'[^']*')
    | (?P<symbol>&&|\|\||==|!=|[!(){},])
    | (?P<phrase>(?:not\s+in|starts\s+with|ends\s+with)\b(?![-./]))
    | (?P<word>[A-Za-z0-9_./-]+)
    )""",
    re.VERBOSE,
)
_COMPARISONS = frozenset({"==", "!=", "contains", "starts with", "ends with"})


class _Parser:
    """Recursive descent over the tokens of one selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if not found or not found.lastgroup:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                what = "a string that does not end" if text[start] in "'\"" else f"unexpected {text[start]!r}"
                raise self._error(start, what)
            kind = found.lastgroup
            self._tokens.append((kind, found.group(kind), found.start(kind)))
            position = found.end()
        self._at = 0

    def _error(self, position: int, what: str) -> SelectorError:
        return SelectorError(f"selector {self._text!r}: {what} at position {position}")

    def _unexpected(self, wanted: str) -> SelectorError:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None:
            return self._error(len(self._text), f"expected {wanted}, found the end")
        return self._error(token[2], f"expected {wanted}, found {token[1]!r}")

    def peek(self) -> str | None:
        """The next token's text; None at the end."""
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def expect_end(self) -> None:
        """Nothing may follow."""
        if self.peek() is not None:
            raise self._unexpected("&&, || or the end")

    def alternatives(self) -> Selector:
        """``a || b``."""
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
        negations = 0
        while self._take_symbol("!"):
            negations += 1
        selector = self._primary()
        for _ in range(negations % 2):
            selector = Not(selector)
        return selector

    def _primary(self) -> Selector:
        if self._take_symbol("("):
            inside = self.alternatives()
            self._expect_symbol(")")
            return inside
        word = self._take("word", "a label, has(), all(), global() or (")
        if word in {"all", "global", "has"} and self._take_symbol("("):
            label = self._take("word", "a label") if word == "has" else ""
            self._expect_symbol(")")
            return Has(label) if word == "has" else All() if word == "all" else Global()
        return self._comparison(word)

    def _comparison(self, label: str) -> Selector:
        operator = " ".join((self.peek() or "").split())
        if operator in _COMPARISONS:
            self._at += 1
            return Compare(label, operator, self._string())
        if operator in {"in", "not in"}:
            self._at += 1
            return In(label, self._values(), negated=operator == "not in")
        raise self._unexpected("an operator (==, !=, in, not in, contains, starts with, ends with)")

    def _values(self) -> frozenset[str]:
        self._expect_symbol("{")
        values: set[str] = set()
        while not self._take_symbol("}"):
            if values:
                self._expect_symbol(",")
            values.add(self._string())
        return frozenset(values)

    def _string(self) -> str:
        return self._take("string", "a quoted string")[1:-1]

    def _take(self, kind: str, wanted: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == kind:
            self._at += 1
            return self._tokens[self._at - 1][1]
        raise self._unexpected(wanted)

    def _take_symbol(self, symbol: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][:2] == ("symbol", symbol):
            self._at += 1
            return True
        return False

    def _expect_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise self._unexpected(symbol)
