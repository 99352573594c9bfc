# SPDX-License-Identifier: Apache-2.0
"""ConvertTo-Json, as 5.1 writes; and decoded JSON, as HNS' cmdlets put it out."""

import json
import re
from typing import Any

from hybridlab.powershell.binding import Call
from hybridlab.powershell.objects import CUSTOM_OBJECT, NetObject, to_text, unwrap
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.syntax import NotEmulated

JSON_DEPTH = 2
"""The depth of ConvertTo-Json when nothing else is asked for."""
_LARGEST_DEPTH = 100
_OTHERWISE_IN_5_1 = re.compile("[<>&'\x00-\x07\x0b\x0e-\x1f\x7f\x85\u2028\u2029]")
"""Characters that 5.1 writes by their numbers."""


class _Json:
    """One document."""

    def __init__(self, *, compress: bool) -> None:
        self._compress = compress

    def plain(self, value: object, depth: int) -> Any:
        """A value as JSON has it; below ``depth`` levels objects are their text, as ConvertTo-Json cuts them."""
        match value:
            case None | bool() | int():
                return value
            case str():
                return self._text(value)
            case NetObject() if value.number is not None:
                return value.number
            case list() | NetObject(custom=True) if depth < 0:
                return to_text(value)
            case list():
                return [self.plain(item, depth - 1) for item in value]
            case NetObject(custom=True):
                return {
                    self._text(name): self.plain(value.get(name), depth - 1)
                    for name in value.properties
                }
        kind = f"a {value.type_name}" if isinstance(value, NetObject) else "this value"
        raise NotEmulated(f"ConvertTo-Json of {kind} (select its properties)")

    def _text(self, text: str) -> str:
        if _OTHERWISE_IN_5_1.search(text):
            raise NotEmulated("ConvertTo-Json of < > & ' and control characters")
        return text

    def written(self, value: Any) -> str:
        if self._compress:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return "\r\n".join(self._lines(value, 0))

    def _lines(self, value: Any, column: int) -> list[str]:
        """Indented by four from where the bracket stands, with two blanks after a colon."""
        if not isinstance(value, (dict, list)):
            return [json.dumps(value, ensure_ascii=False)]
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        if not value:
            raise NotEmulated(
                "ConvertTo-Json of an empty array or object in 5.1, without -Compress"
            )
        inside = column + 4
        lines = [opening]
        entries = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
        for number, (key, item) in enumerate(entries):
            named = f"{json.dumps(key, ensure_ascii=False)}:  " if isinstance(value, dict) else ""
            head = " " * inside + named
            first, *more = self._lines(item, len(head))
            lines += [head + first, *more]
            lines[-1] += "," if number < len(entries) - 1 else ""
        return [*lines, " " * column + closing]


class _ConvertToJson(Stage):
    """What was piped in as one document: an array when it were several, nothing when it was nothing."""

    def __init__(self, shell: Shell, call: Call) -> None:
        super().__init__(shell, call)
        self._piped: list[object] = []

    async def process(self, item: object) -> None:
        self._piped.append(item)

    async def end(self) -> None:
        depth = to_int(self.call.get("depth", JSON_DEPTH))
        if not 0 < depth <= _LARGEST_DEPTH or any(
            isinstance(item, (list, bytes)) for item in self._piped
        ):
            raise NotEmulated(f"ConvertTo-Json -Depth {depth} of these values")
        if self._piped:
            document = _Json(compress=self.call.flag("compress"))
            await self.emit(document.written(document.plain(unwrap(self._piped), depth)))


def from_json(value: Any) -> object:
    """A decoded JSON value of the host as PowerShell has it."""
    if isinstance(value, dict):
        return NetObject.of_properties(
            CUSTOM_OBJECT, {name: from_json(item) for name, item in value.items()}
        )
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value


def add_to(library: Library) -> None:
    """Register it."""
    library.add("ConvertTo-Json", "Depth:int Compress?", _ConvertToJson)
