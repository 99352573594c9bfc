"""The -f operator and .ToString(format): standard numeric formats and the simplest custom ones."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

from hybridlab.powershell.clock import DateTime
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import Char, NetObject, NumberText, to_text
from hybridlab.powershell.syntax import NotEmulated

_HOLE = re.compile(r"\{(\d+)(?:,\s*(-?\d+))?(?::([^{}]*))?\}")
_STANDARD = re.compile(r"([NFDXnfdx])(\d{0,2})")
_CUSTOM = re.compile(r"(0+)(?:\.(0+))?")


def format_text(template: str, arguments: list[object]) -> str:
    """``{0}``, ``{0,8}``, ``{0:N2}``.  Raises Fault for a wrong template or too few arguments."""
    made, place = "", 0
    while place < len(template):
        here = template[place]
        if here in "{}" and template[place + 1 : place + 2] == here:
            made, place = made + here, place + 2
            continue
        if here not in "{}":
            made, place = made + here, place + 1
            continue
        match = _HOLE.match(template, place)
        if not match:
            raise _fault("Input string was not in a correct format.")
        if int(match[1]) >= len(arguments):
            raise _fault(
                "Index (zero based) must be greater than or equal to zero and less than the size of the argument list."
            )
        value = arguments[int(match[1])]
        text = format_value(value, match[3]) if match[3] else to_text(value) if not _odd(value) else _refuse()
        width = int(match[2] or 0)
        made += text.rjust(width) if width >= 0 else text.ljust(-width)
        place = match.end()
    return made


def _odd(value: object) -> bool:
    return isinstance(value, (list, bytes, DateTime, float)) and not (
        isinstance(value, float) and len(repr(value).replace(".", "").strip("0-")) <= 15
    )  # both versions show


def _refuse() -> str:
    raise NotEmulated("-f of this value without a format")


def _fault(message: str) -> Fault:
    return Fault(f"Error formatting a string: {message}.", "InvalidOperation: (:) [], RuntimeException", "FormatError")


def format_value(value: object, form: str) -> str:
    """A value by a format string; strings and truth values ignore it."""
    if isinstance(value, NumberText):
        value = value.value
    if value is None or isinstance(value, (str, bool, Char)):
        return to_text(value)
    if isinstance(value, DateTime):
        return value.formatted(form)
    if isinstance(value, (NetObject, list, bytes)) or not isinstance(value, (int, float)):
        raise NotEmulated(f"the format {form} of this value")
    if custom := _CUSTOM.fullmatch(form):
        digits = len(custom[2] or "")
        text = _fixed(value, digits, form)
        sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
        return sign + "0" * (len(custom[1]) - len(text.split(".")[0])) + text
    standard = _STANDARD.fullmatch(form)
    if not standard:
        raise NotEmulated(f"the format {{0:{form}}}")
    kind, count = standard[1].upper(), standard[2]
    if kind in "DX":
        if isinstance(value, float):
            raise _fault("Format specifier was invalid.")
        if kind == "X" and value < 0:
            raise NotEmulated(f"the format {{0:{form}}} of a negative number")
        text = f"{abs(value):d}" if kind == "D" else f"{value:X}" if standard[1] == "X" else f"{value:x}"
        return ("-" if value < 0 else "") + text.rjust(int(count or 1), "0")
    text = _fixed(value, int(count or 2), form)
    return f"{Decimal(text):,f}" if kind == "N" else text


def _fixed(value: float, digits: int, form: str) -> str:
    """So many digits after the point.  Exact halves are rounded differently by the versions of .NET: refused."""
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    step = Decimal(1).scaleb(-digits)
    rounded = exact.quantize(step, rounding=ROUND_HALF_UP)
    if abs(rounded - exact) * 2 == step:
        raise NotEmulated(f"the format {form} of a number half-way between two")
    return f"{rounded:f}" if rounded else f"{abs(rounded):f}"
