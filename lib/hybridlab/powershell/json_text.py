"""ConvertTo-Json, as each version writes; and decoded JSON, as HNS' cmdlets put it out."""

from __future__ import annotations

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
_TRUNCATED = "Resulting JSON is truncated as serialization has exceeded the set depth of {}."


class _Json:
    """One document."""

    def __init__(self, *, seven: bool, compress: bool) -> None:
        self._seven, self._compress = seven, compress
        self.truncated = False

    def plain(self, value: object, depth: int) -> Any:
        """A value as JSON has it; below ``depth`` levels objects are their text, as ConvertTo-Json cuts them."""
        if isinstance(value, NetObject) and value.number is not None:
            return value.number
        if value is None or isinstance(value, (bool, int, NumberText)):
            return plain_value(value)
        if isinstance(value, float):
            return self._double(value)
        if isinstance(value, (str, Char)):
            return self._text(str(value))
        if isinstance(value, WrappedArray):
            raise NotEmulated(_WRAPPED)
        if isinstance(value, (HashTable, list, bytes)) or (isinstance(value, NetObject) and value.custom):
            if depth < 0:
                self.truncated = True
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

    def _double(self, value: float) -> float:
        if not self._seven and value.is_integer():
            raise NotEmulated("ConvertTo-Json of a whole double in 5.1")
        if len(repr(value).replace(".", "").strip("0-")) > 15 or "e" in repr(value):
            raise NotEmulated("ConvertTo-Json of this double")
        return value

    def _text(self, text: str) -> str:
        if not self._seven and _ESCAPED_BY_5_1.search(text):
            raise NotEmulated("ConvertTo-Json of < > & ' in 5.1, which escapes them")
        if any((ord(item) < 0x20 and item not in "\t\n\r\b\f") or item in "\x7f\x85\u2028\u2029" for item in text):
            raise NotEmulated("ConvertTo-Json of control characters")
        return text

    @staticmethod
    def _cut_off(value: HashTable | list[object] | bytes | NetObject) -> str:
        return value.words() if isinstance(value, NetObject) else to_text(value)

    def written(self, value: Any) -> str:
        """The document's text."""
        if self._compress:
            return self._scalar(value, compact=True)
        return "\r\n".join(self._lines(value, 0))

    def _scalar(self, value: Any, *, compact: bool = False) -> str:
        if compact:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
        return json.dumps(value, ensure_ascii=False)

    def _lines(self, value: Any, column: int) -> list[str]:
        """5.1 indents by four from where the bracket stands and puts two blanks after a colon; 7 indents by two."""
        if not isinstance(value, (dict, list)):
            return [self._scalar(value)]
        opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
        if not value:
            if not self._seven:
                raise NotEmulated("ConvertTo-Json of an empty array or object in 5.1, without -Compress")
            return [opening + closing]
        inside = column + (2 if self._seven else 4)
        lines = [opening]
        entries = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
        for number, (key, item) in enumerate(entries):
            head = " " * inside + (
                f"{json.dumps(key, ensure_ascii=False)}:{' ' if self._seven else '  '}"
                if isinstance(value, dict)
                else ""
            )
            first, *more = self._lines(item, inside if self._seven else len(head))
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
        if not shell.seven and len(piped) == 1 and isinstance(value, (list, bytes)):
            raise NotEmulated(_WRAPPED)
    depth = to_int(call.get("depth", JSON_DEPTH))
    if not 0 <= depth <= _LARGEST_DEPTH or (depth == 0 and not shell.seven):
        raise NotEmulated(f"ConvertTo-Json -Depth {depth}")
    document = _Json(seven=shell.seven, compress=call.flag("compress"))
    plain = document.plain(value, depth)
    if document.truncated and shell.seven:
        await shell.warn(_TRUNCATED.format(depth), call)
    return [document.written(plain)]


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
        "InputObject@0 Depth:int Compress? 7:-AsArray? 7:-EnumsAsStrings? 7:-EscapeHandling",
        collecting(convert_to_json),
    )
