# SPDX-License-Identifier: Apache-2.0
"""Which labels a selector selects: Calico's selector language and Kubernetes' LabelSelector, with a third answer.

A selector selects, does not select, or cannot be read: its text is none of the language, or the labels are not known.
Nobody who asks may take the third answer for one of the others.  Sources: Calico's reference, NetworkPolicy,
"Selectors", and its parser (libcalico-go/lib/selector); Kubernetes' reference, LabelSelector.  The labels that
Kubernetes and Calico add by themselves are in ``labels``.

    calico("role == 'db' && has(team)").selects(pod)      # on an endpoint's or a network set's labels
    calico_namespaces("all()").selects(namespace)         # a namespaceSelector, on its namespace's labels
    kubernetes({"matchLabels": {"role": "db"}}).selects(pod)
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar

from conformance.policy.labels import NAME_LABEL, Labels

P = TypeVar("P")
Predicate = Callable[[Labels], bool]


class Selection(Enum):
    """What a selector says of some labels."""

    SELECTS = "selects"
    SELECTS_NOT = "does not select"
    UNREADABLE = "cannot be read"


@dataclass(frozen=True)
class Selector:
    """A selector that was read, or that cannot be: then ``problem`` says why."""

    text: str
    holds: Predicate
    """Whether labels satisfy it.  Raises ValueError where there is a ``problem``: ask ``selects`` if there may be."""
    problem: str = ""

    def selects(self, labels: Labels | None) -> Selection:
        """One of the three answers; ``labels``: None when they are not known."""
        if self.problem:
            return Selection.UNREADABLE
        if labels is None:
            return Selection.SELECTS if self.holds is _everything else Selection.UNREADABLE
        return Selection.SELECTS if self.holds(labels) else Selection.SELECTS_NOT


def calico(text: str | None) -> Selector:
    """Calico's language on labels of endpoints, network sets or service accounts; nothing and "" select all."""
    return _of_calico(text, False)


def calico_namespaces(text: str | None) -> Selector:
    """Calico's language in a namespaceSelector, on the labels of a namespace, or ``{}`` of what has none.

    There ``all()`` is whatever is in a namespace and ``global()`` whatever is in none; a negation (``!has(team)``) is
    true of what is in none, too.  Nothing and "" select all.
    """
    return _of_calico(text, True)


def kubernetes(selector: Mapping[str, Any]) -> Selector:
    """Kubernetes' LabelSelector; ``{}`` selects all.  What no selector at all means is for who asks to say."""
    text = str(dict(selector))
    try:
        terms = _terms(selector)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return _unreadable(text, str(error))
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
    """What the parts of a selector mean to who reads it."""

    everything: P
    any_of: Callable[[list[P]], P]
    all_of: Callable[[list[P]], P]
    negated: Callable[[P], P]
    has: Callable[[str], P]
    within: Callable[[str, frozenset[str]], P]
    """Label and values."""
    compare: Callable[[str, str, str], P]
    """Label, operator without blanks, value."""


def read(text: str, meaning: Meaning[P], *, namespaces: bool = False) -> P:
    """What a selector means.  Raises ValueError where it cannot be read."""
    reader = _Reader(text, namespaces, meaning)
    try:
        found = meaning.everything if reader.ended() else reader.disjunction()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not reader.ended():
        raise reader.refused("the end")
    return found


def _of_calico(text: Any, namespaces: bool) -> Selector:
    if text is not None and not isinstance(text, str):
        return _unreadable(str(text), "a text is expected, such as \"app == 'web'\"")
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
        found = self._demand("value", "a text in quotes")
        return found[1] if found[1] is not None else found[2]


# --- Kubernetes' LabelSelector ----------------------------------------------------------------------------------------


def _terms(selector: Mapping[str, Any]) -> list[Predicate]:
    strange = sorted(selector.keys() - {"matchLabels", "matchExpressions"})
    if strange:
        raise ValueError(f"unknown field {strange[0]}")
    terms = [
        _compare(str(key), "==", _text(value))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    return terms + [_expression(one) for one in selector.get("matchExpressions") or []]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"values are texts: {str(value)!r} in quotes, not {value!r}")
    return value


def _expression(one: Mapping[str, Any]) -> Predicate:
    label = str(one["key"])
    operator = one["operator"]
    values = frozenset(map(_text, one.get("values") or []))
    if bool(values) != (operator in {"In", "NotIn"}):
        raise ValueError(f"operator {operator} with {len(values) or 'no'} values")
    if operator == "In":
        return _within(label, values)
    if operator == "NotIn":
        return _not(_within(label, values))
    if operator == "Exists":
        return _has(label)
    if operator == "DoesNotExist":
        return _not(_has(label))
    raise ValueError(f"unknown operator {operator}")


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
    """A missing label is in no set, and so in what ``not in`` selects."""
    return lambda labels: labels.get(label) in values


def _compare(label: str, operator: str, value: str) -> Predicate:
    """A missing label fails everything but ``!=``."""
    if operator == "==":
        return lambda labels: labels.get(label) == value
    if operator == "!=":
        return lambda labels: labels.get(label) != value
    if operator == "contains":
        return lambda labels: label in labels and value in labels[label]
    if operator == "startswith":
        return lambda labels: label in labels and labels[label].startswith(value)
    return lambda labels: label in labels and labels[label].endswith(value)


_PREDICATES = Meaning[Predicate](_everything, _any_of, _all_of, _not, _has, _within, _compare)
