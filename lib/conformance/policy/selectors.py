# SPDX-License-Identifier: Apache-2.0
"""Selectors of labels: Calico's selector language and Kubernetes' LabelSelector, with three
possible answers.

A selector selects, does not select, or cannot be evaluated: its text is invalid, or the labels are
not known. No caller may treat the third answer as one of the other two. Sources: Calico's
reference, NetworkPolicy, "Selectors", and its parser (libcalico-go/lib/selector); Kubernetes'
reference, LabelSelector. The labels that Kubernetes and Calico add by themselves are in the module
``labels``.

    calico("role == 'db' && has(team)").selects(pod)  # the labels of an endpoint or network set
    calico_namespaces("all()").selects(namespace)  # a namespaceSelector; the namespace's labels
    kubernetes({"matchLabels": {"role": "db"}}).selects(pod)
"""

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from conformance.policy.labels import NAME_LABEL, Labels
from conformance.policy.truth import Truth

P = TypeVar("P")
Predicate = Callable[[Labels], bool]
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80
_SHOWN.maxlevel = 3
_WORD = re.compile(r"[!-~]{1,253}")
LONGEST = 120
"""The maximum number of characters of a value in a message."""


def shown(value: Any) -> str:
    """Return a value as a message shows it: short, however large and nested the value is."""
    reported = _SHOWN.repr(value)
    return reported if len(reported) <= LONGEST else f"{reported[: LONGEST - 3]}..."


def word(value: Any) -> str:
    """Return a name as a message shows it: plain if it looks like a name, else as a value."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else shown(value)


@dataclass(frozen=True)
class Selector:
    """A selector. If it cannot be read, ``problem`` has the reason."""

    text: str
    holds: Predicate
    """Tests labels. Raises ValueError if there is a ``problem``; ``selects`` returns None instead.
    """
    problem: str = ""

    def selects(self, labels: Labels | None) -> Truth:
        """Return whether the selector selects labels. ``labels``: None if they are not known."""
        if self.problem:
            return None
        if labels is None:
            return True if self.holds is _everything else None
        return self.holds(labels)


def calico(text: str | None) -> Selector:
    """Read a selector in Calico's language, on labels of endpoints, network sets or service
    accounts.

    A missing selector and an empty one select everything.
    """
    return _of_calico(text, False)


def calico_namespaces(text: str | None) -> Selector:
    """Read a selector in Calico's language as a namespaceSelector. It matches the labels of a
    namespace, or ``{}`` for objects outside namespaces.

    Here, ``all()`` matches everything in a namespace and ``global()`` everything outside
    namespaces. A negation (``!has(team)``) also matches objects outside namespaces. A missing
    selector and "" select all.
    """
    return _of_calico(text, True)


def kubernetes(selector: Mapping[str, Any]) -> Selector:
    """Parse a Kubernetes LabelSelector; ``{}`` selects all. The caller decides the meaning of a
    missing selector.
    """
    text = shown(selector)
    try:
        terms = _terms(selector)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return _unreadable(text, str(error)[:120])
    return Selector(text, _all_of(terms) if terms else _everything)


# --- Calico's language ------------------------------------------------------------------------------------------------

_LABEL = r"[A-Za-z0-9_./-]{1,512}"
_BLANK = re.compile(r"[ \t]*")
_TOKENS = {
    "or": re.compile(r"\|\|"),
    "and": re.compile(r"&&"),
    "not": re.compile(r"!(?!=)"),
    "(": re.compile(r"\("),
    ")": re.compile(r"\)"),
    "{": re.compile(r"\{"),
    "}": re.compile(r"\}"),
    ",": re.compile(r","),
    "has": re.compile(rf"has\([ \t]*({_LABEL})[ \t]*\)"),
    "all": re.compile(r"(all|global)\([ \t]*\)"),
    "label": re.compile(rf"({_LABEL})"),
    "operator": re.compile(r"(==|!=|contains|starts[ \t]*with|ends[ \t]*with|not[ \t]*in|in)"),
    "value": re.compile(r"'([^']*)'|\"([^\"]*)\""),
}


@dataclass(frozen=True)
class Meaning(Generic[P]):
    """The meaning that a reader gives to the parts of a selector."""

    everything: P
    any_of: Callable[[list[P]], P]
    all_of: Callable[[list[P]], P]
    negated: Callable[[P], P]
    has: Callable[[str], P]
    within: Callable[[str, frozenset[str]], P]
    """The arguments are the label and the values."""
    compare: Callable[[str, str, str], P]
    """The arguments are the label, the operator without blanks, and the value."""


def read(text: str, meaning: Meaning[P], *, namespaces: bool = False) -> P:
    """Return the meaning of a selector.  Raise ValueError if it cannot be parsed."""
    reader = _Reader(text, namespaces, meaning)
    try:
        found = meaning.everything if reader.ended() else reader.disjunction()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not reader.ended():
        raise reader.refused("the end")
    return found


def _of_calico(text: Any, namespaces: bool) -> Selector:
    if text is not None and not isinstance(text, str):
        return _unreadable(shown(text), "a string is expected, such as \"app == 'web'\"")
    return _calico(text or "", namespaces)


@lru_cache(4096)
def _calico(text: str, namespaces: bool) -> Selector:
    try:
        return Selector(text, read(text, _PREDICATES, namespaces=namespaces))
    except ValueError as error:
        return _unreadable(text, str(error))


class _Reader(Generic[P]):
    """Reads a text from left to right; ``||`` binds least, then ``&&``, then ``!``."""

    def __init__(self, text: str, namespaces: bool, meaning: Meaning[P]) -> None:
        self.text = text
        self.namespaces = namespaces
        self.meaning = meaning
        self.at = 0

    def ended(self) -> bool:
        self._skip()
        return self.at == len(self.text)

    def refused(self, expected: str) -> ValueError:
        found = repr(self.text[self.at : self.at + 20]) if self.at < len(self.text) else "the end"
        return ValueError(f"{expected} expected at {self.at + 1}, not {found}")

    def _skip(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at

    def _take(self, token: str) -> re.Match[str] | None:
        self._skip()
        found = _TOKENS[token].match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def _demand(self, token: str, expected: str) -> re.Match[str]:
        found = self._take(token)
        if found is None:
            raise self.refused(expected)
        return found

    def disjunction(self) -> P:
        parts = [self._conjunction()]
        while self._take("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else self.meaning.any_of(parts)

    def _conjunction(self) -> P:
        parts = [self._operation()]
        while self._take("and"):
            parts.append(self._operation())
        return parts[0] if len(parts) == 1 else self.meaning.all_of(parts)

    def _operation(self) -> P:
        negated = False
        while self._take("not"):
            negated = not negated
        operation = self._positive()
        return self.meaning.negated(operation) if negated else operation

    def _positive(self) -> P:
        meaning = self.meaning
        if found := self._take("has"):
            return meaning.has(found[1])
        if found := self._take("all"):
            if not self.namespaces:
                return meaning.everything
            named = meaning.has(NAME_LABEL)
            return named if found[1] == "all" else meaning.negated(named)
        if self._take("("):
            inner = self.disjunction()
            self._demand(")", "')'")
            return inner
        label = self._demand("label", "a label, has(), all(), '!' or '('")[1]
        operator = re.sub(r"[ \t]", "", self._demand("operator", "an operator")[1])
        if operator not in {"in", "notin"}:
            return meaning.compare(label, operator, self._value())
        self._demand("{", "'{'")
        values = set()
        while not self._take("}"):
            values.add(self._value())
            if not self._take(","):
                self._demand("}", "',' or '}'")
                break
        inside = meaning.within(label, frozenset(values))
        return inside if operator == "in" else meaning.negated(inside)

    def _value(self) -> str:
        found = self._demand("value", "a string in quotes")
        return found[1] if found[1] is not None else found[2]


# --- Kubernetes' LabelSelector ----------------------------------------------------------------------------------------


def _terms(selector: Mapping[str, Any]) -> list[Predicate]:
    strange = [key for key in selector if key not in ("matchLabels", "matchExpressions")]
    if strange:
        raise ValueError(f"unknown field {shown(strange[0])}")
    terms = [
        _compare(str(key), "==", _text(value))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    return terms + [_expression(one) for one in selector.get("matchExpressions") or []]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(
            f"values must be strings: write {shown(value)!r} with quotes, not {shown(value)}"
        )
    return value


def _expression(one: Mapping[str, Any]) -> Predicate:
    label = str(one["key"])
    operator = one["operator"]
    if not isinstance(operator, str):
        raise ValueError(f"unknown operator {shown(operator)}")
    values = frozenset(map(_text, one.get("values") or []))
    if bool(values) != (operator in {"In", "NotIn"}):
        raise ValueError(f"operator {word(operator)} with {len(values) or 'no'} values")
    positive = {"In": _within(label, values), "Exists": _has(label)}
    negative = {"NotIn": _not(positive["In"]), "DoesNotExist": _not(positive["Exists"])}
    if operator not in {**positive, **negative}:
        raise ValueError(f"unknown operator {word(operator)}")
    return {**positive, **negative}[operator]


# --- Predicates -------------------------------------------------------------------------------------------------------


def _everything(labels: Labels) -> bool:
    return True


def _unreadable(text: str, why: str) -> Selector:
    def refuse(labels: Labels) -> bool:
        raise ValueError(f"selector {text!r} cannot be read: {why}")

    return Selector(text, refuse, why)


def _any_of(parts: list[Predicate]) -> Predicate:
    return lambda labels: any(part(labels) for part in parts)


def _all_of(parts: list[Predicate]) -> Predicate:
    return lambda labels: all(part(labels) for part in parts)


def _not(part: Predicate) -> Predicate:
    return lambda labels: not part(labels)


def _has(label: str) -> Predicate:
    return lambda labels: label in labels


def _within(label: str, values: frozenset[str]) -> Predicate:
    """Return the predicate for a label in a set. A missing label is in no set, so ``not in``
    selects it."""
    return lambda labels: labels.get(label) in values


_COMPARISONS: Mapping[str, Callable[[str | None, str], bool]] = {
    "==": lambda own, value: own == value,
    "!=": lambda own, value: own != value,
    "contains": lambda own, value: own is not None and value in own,
    "startswith": lambda own, value: own is not None and own.startswith(value),
    "endswith": lambda own, value: own is not None and own.endswith(value),
}
"""A missing label fails every comparison except ``!=``."""


def _compare(label: str, operator: str, value: str) -> Predicate:
    holds = _COMPARISONS[operator]
    return lambda labels: holds(labels.get(label), value)


_PREDICATES = Meaning[Predicate](_everything, _any_of, _all_of, _not, _has, _within, _compare)
