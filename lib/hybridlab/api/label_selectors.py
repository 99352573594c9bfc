# SPDX-License-Identifier: Apache-2.0
"""The grammar of label selectors (``a=b``, ``a in (x,y)``, ``!a``), accepted and refused as in
k8s.io/apimachinery."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hybridlab.api.errors import bad_request, shown
from hybridlab.api.kinds.metadata import key_problem, value_problem

LabelTest = Callable[[Mapping[str, str]], bool]
_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_OPERATORS: Final = ("in", "notin", "=", "==", "!=", "gt", "lt")
_SYMBOLS: Final = frozenset({"=", "==", "!=", "!", "<", ">", "(", ")", ","})
_END: Final = ""


class Requirement(NamedTuple):
    """A condition on labels."""

    key: str
    operator: str
    """``in``, ``notin``, ``exists``, ``absent``, ``>`` or ``<``."""
    values: frozenset[str] = frozenset()

    def test(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        sign = 1 if self.operator == ">" else -1
        try:
            return sign * (int(value or "") - int(next(iter(self.values)))) > 0
        except ValueError:
            return False


class _Problem(Exception):
    """The fault of a selector."""


def parse(text: str) -> list[Requirement]:
    """Return the conditions of a selector; raise ApiError 400, worded as on a real server, if the
    text is no selector."""
    try:
        return _Parser(text).requirements()
    except _Problem as problem:
        raise bad_request(str(problem)) from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [*_TOKEN.findall(text), _END]
        self._place = 0

    def _ahead(self) -> str:
        return str(self._tokens[self._place])

    def _take(self) -> str:
        token = self._ahead()
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    @staticmethod
    def _is_word(token: str) -> bool:
        return token not in _SYMBOLS and token != _END

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while (token := self._ahead()) != _END:
            if token != "!" and not self._is_word(token):
                raise _Problem(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except _Problem as problem:
                raise _Problem(f"unable to parse requirement: {problem}") from None
            token = self._take()
            if token == _END:
                break
            if token != ",":
                raise _Problem(f"found '{token}', expected: ',' or 'end of string'")
            token = self._ahead()
            if token != "!" and not self._is_word(token):
                raise _Problem(f"found '{token}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        key = self._take()
        absent = key == "!"
        if absent:
            key = self._take()
        if not self._is_word(key):
            raise _Problem(f"found '{key}', expected: identifier")
        if problem := key_problem(key):
            raise _Problem(f"<nil>: Invalid value: {shown(key)}: {problem}")
        if absent or self._ahead() in {_END, ","}:
            return Requirement(key, "absent" if absent else "exists")
        operator = self._take()
        if operator not in {"in", "notin", "=", "==", "!=", ">", "<"}:
            raise _Problem(f"found '{operator}', expected: {', '.join(_OPERATORS)}")
        values = self._values() if operator in {"in", "notin"} else [self._exact_value()]
        for index, value in enumerate(values):
            if operator in {">", "<"} and not re.fullmatch(r"-?\d+", value):
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise _Problem(f"values[{index}][{key}]: Invalid value: {shown(value)}: {detail}")
            if problem := value_problem(value):
                raise _Problem(f"values[{index}][{key}]: Invalid value: {shown(value)}: {problem}")
        kind = {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator)
        return Requirement(key, kind, frozenset(values))

    def _exact_value(self) -> str:
        if self._ahead() in {_END, ","}:
            return ""
        value = self._take()
        if not self._is_word(value):
            raise _Problem(f"found '{value}', expected: identifier")
        return value

    def _values(self) -> list[str]:
        token = self._take()
        if token != "(":
            raise _Problem(f"found '{token}' expected: '('")
        values: list[str] = []
        expecting = True
        while (token := self._take()) != ")":
            if self._is_word(token) and expecting:
                values.append(token)
            elif token != "," or token == _END:
                wanted = "',', or identifier" if expecting else "',' or ')'"
                raise _Problem(f"found '{token}', expected: {wanted}")
            elif expecting:
                values.append("")
            expecting = token == ","
        return [*values, ""] if expecting else values
