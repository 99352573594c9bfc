# SPDX-License-Identifier: Apache-2.0
"""ConvertTo-Json as in 5.1, and decoded JSON as the HNS cmdlets return it."""

import json
import re
from typing import Any

from hybridlab.powershell.binding import Call
from hybridlab.powershell.objects import CUSTOM_OBJECT, HashTable, NetObject, to_text, unwrap
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Library, Shell, Stage
from hybridlab.powershell.syntax import NotEmulated

JSON_DEPTH = 2
"""The default of ConvertTo-Json's parameter Depth."""
_LARGEST_DEPTH = 100
_BY_NUMBER = re.compile("[<>&'\x7f\x85\u2028\u2029]")
"""Characters that 5.1 writes as escape numbers although JSON does not require it."""


class _Json:
    """A JSON text that is being written."""

    def __init__(self, *, compress: bool) -> None:
        self._compress = compress

    def plain(self, value: object, depth: int) -> Any:
        """Return a value for JSON.

        Objects more than ``depth`` levels down become texts, as in ConvertTo-Json.
        """
        match value:
            case None | bool() | int():
                return value
            case str():
                return value
            case NetObject() if value.number is not None:
                return value.number
            case list() | NetObject(custom=True) if depth < 0:
                return to_text(value)
            case list():
                return [self.plain(item, depth - 1) for item in value]
            case HashTable(ordered=True):
                return {to_text(key): self.plain(item, depth - 1) for key, item in value.items()}
            case NetObject(custom=True):
                return {name: self.plain(value.get(name), depth - 1) for name in value.properties}
        kind = f"a {value.type_name}" if isinstance(value, NetObject) else "this value"
        raise NotEmulated(f"ConvertTo-Json of {kind} (select its properties)")

    def written(self, value: Any) -> str:
        if self._compress:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        else:
            text = "\r\n".join(self._lines(value, 0))
        return _BY_NUMBER.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

    def _lines(self, value: Any, column: int) -> list[str]:
        """Return the lines of a value.

        Lines are indented by four columns from the opening bracket, and two blanks follow each
        colon.
        """
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
    """A stage that prints its objects as a single document.

    Several objects become an array. Without any object the stage prints nothing.
    """

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
    """Return a decoded JSON value of the host as a PowerShell value."""
    if isinstance(value, dict):
        return NetObject.of_properties(
            CUSTOM_OBJECT, {name: from_json(item) for name, item in value.items()}
        )
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return value


def add_to(library: Library) -> None:
    """Register the cmdlet."""
    library.add("ConvertTo-Json", "Depth:int Compress?", _ConvertToJson)
