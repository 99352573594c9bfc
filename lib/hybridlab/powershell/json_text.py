"""ConvertTo-Json, as 5.1 writes; and decoded JSON, as HNS' cmdlets put it out."""

import json
import re
from typing import Any

from hybridlab.powershell.binding import Call, plain_value
from hybridlab.powershell.conversion import to_int
from hybridlab.powershell.numbers import long_or_int
from hybridlab.powershell.objects import (
    CUSTOM_OBJECT,
    Char,
    HashTable,
    NetObject,
    NumberText,
    WrappedArray,
    enumerate_value,
    to_text,
    unwrap,
)
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import collecting
from hybridlab.powershell.syntax import NotEmulated

JSON_DEPTH = 2
"""The depth of ConvertTo-Json when nothing else is asked for."""
_LARGEST_DEPTH = 100
_ESCAPED_BY_5_1 = re.compile(r"[<>&']")
_WRAPPED = "ConvertTo-Json of an array that came through a pipeline as one object, in 5.1"
"""There it becomes an object with ``value`` and ``Count``."""


class _Json:
    """One document."""

    def __init__(self, *, compress: bool) -> None:
        self._compress = compress

    def plain(self, value: object, depth: int) -> Any:
        """A value as JSON has it; below ``depth`` levels objects are their text, as ConvertTo-Json cuts them."""
        if isinstance(value, NetObject) and value.number is not None:
            return value.number
        if value is None or isinstance(value, (bool, int, NumberText)):
            return plain_value(value)
        if isinstance(value, float):
            raise NotEmulated("ConvertTo-Json of a double")
        if isinstance(value, (str, Char)):
            return self._text(str(value))
        if isinstance(value, WrappedArray):
            raise NotEmulated(_WRAPPED)
        if isinstance(value, (HashTable, list, bytes)) or (isinstance(value, NetObject) and value.custom):
            if depth < 0:
                return self._cut_off(value)
            return self._deeper(value, depth - 1)
        kind = f"a {value.type_name}" if isinstance(value, NetObject) else "this value"
        raise NotEmulated(f"ConvertTo-Json of {kind} (select its properties)")

    def _deeper(self, value: HashTable | list[object] | bytes | NetObject, depth: int) -> Any:
        if isinstance(value, HashTable):
            return {self._text(to_text(key)): self.plain(item, depth) for key, item in value.shown()}
        if isinstance(value, NetObject):
            return {self._text(name): self.plain(value.get(name), depth) for name in value.properties}
        return [self.plain(item, depth) for item in enumerate_value(value)]

    def _text(self, text: str) -> str:
        if _ESCAPED_BY_5_1.search(text):
            raise NotEmulated("ConvertTo-Json of < > & ' in 5.1, which escapes them")
        if any((ord(item) < 0x20 and item not in "\t\n\r\b\f") or item in "\x7f\x85\u2028\u2029" for item in text):
            raise NotEmulated("ConvertTo-Json of control characters")
        return text

    @staticmethod
    def _cut_off(value: HashTable | list[object] | bytes | NetObject) -> str:
        return value.words() if isinstance(value, NetObject) else to_text(value)

    def written(self, value: Any) -> str:
        if self._compress:
            return self._scalar(value, compact=True)
        return "\r\n".join(self._lines(value, 0))

    def _scalar(self, value: Any, *, compact: bool = False) -> str:
        if compact:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
        return json.dumps(value, ensure_ascii=False)

    def _lines(self, value: Any, column: int) -> list[str]:
        """Indented by four from where the bracket stands, with two blanks after a colon."""
        if not isinstance(value, (dict, list)):
            return [self._scalar(value)]
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        if not value:
            raise NotEmulated("ConvertTo-Json of an empty array or object in 5.1, without -Compress")
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


async def convert_to_json(shell: Shell, call: Call, piped: list[object] | None) -> list[object]:
    """-Compress and -Depth."""
    if call.has("inputobject"):
        if piped:
            raise NotEmulated("pipeline input of ConvertTo-Json beside -InputObject")
        value = call.get("inputobject")
    elif not piped:
        if piped is None:
            raise NotEmulated("ConvertTo-Json without input")
        return []  # nothing was piped in: nothing comes out
    else:
        value = unwrap(piped)
        if len(piped) == 1 and isinstance(value, (list, bytes)):
            raise NotEmulated(_WRAPPED)
    depth = to_int(call.get("depth", JSON_DEPTH))
    if not 0 < depth <= _LARGEST_DEPTH:
        raise NotEmulated(f"ConvertTo-Json -Depth {depth}")
    document = _Json(compress=call.flag("compress"))
    return [document.written(document.plain(value, depth))]


def from_json(value: Any) -> object:
    """A decoded JSON value of the host as PowerShell has it."""
    if isinstance(value, dict):
        return NetObject.of_properties(CUSTOM_OBJECT, {name: from_json(item) for name, item in value.items()})
    if isinstance(value, list):
        return [from_json(item) for item in value]
    return long_or_int(value) if type(value) is int else value


def add_to(library: Library) -> None:
    """Register them."""
    library.add(
        "ConvertTo-Json",
        "InputObject@0 Depth:int Compress?",
        collecting(convert_to_json),
    )
