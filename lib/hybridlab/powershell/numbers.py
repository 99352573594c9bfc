"""Numbers: Int32 is ``int``, Int64 is :class:`Long`, Double is ``float``; arithmetic with .NET's ranges."""

from __future__ import annotations

import math
import re

from hybridlab.powershell.syntax import NotEmulated

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


class Long(int):
    """A System.Int64."""


Number = int | float


def long_or_int(value: int) -> int:
    """The smallest integer type of a literal."""
    if INT_MIN <= value <= INT_MAX:
        return int(value)
    if LONG_MIN <= value <= LONG_MAX:
        return Long(value)
    raise NotEmulated("an integer of more than 64 bits")


def fit(value: int, *operands: Number) -> Number:
    """An integer result in the operands' type; one that is too large becomes a double, as PowerShell has it."""
    if any(isinstance(operand, Long) for operand in operands):
        return Long(value) if LONG_MIN <= value <= LONG_MAX else float(value)
    return value if INT_MIN <= value <= INT_MAX else float(value)


def divide(left: Number, right: Number) -> Number:
    """``/``: whole results of integers stay integers.  Raises ZeroDivisionError for integers."""
    if isinstance(left, int) and isinstance(right, int):
        if left % right == 0:
            return fit(left // right, left, right)
        return left / right
    return _double(left, right, "/")


def remainder(left: Number, right: Number) -> Number:
    """``%``: the sign is the dividend's.  Raises ZeroDivisionError for integers."""
    if isinstance(left, int) and isinstance(right, int):
        return fit(int(math.copysign(1, left)) * (abs(left) % abs(right)), left, right)
    return _double(left, right, "%")


def _double(left: Number, right: Number, operator: str) -> float:
    if not right:
        raise NotEmulated("a double divided by zero")
    return left / right if operator == "/" else math.fmod(left, right)


def double_text(value: float, digits: int = 15) -> str:
    """.NET's general format: at most ``digits`` digits, with an exponent below 1E-05 and from 1E+15."""
    if not math.isfinite(value):
        raise NotEmulated("the text of a number that is infinite or none")
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -5 < power < digits:
        fixed = f"{value:.{digits - 1 - power}f}"
        return fixed.rstrip("0").rstrip(".") if "." in fixed else fixed
    short = mantissa.rstrip("0").rstrip(".")
    return f"{short}E{'+' if power > 0 else '-'}{abs(power):02d}"


_TEXT = re.compile(r"[+-]?(0x[0-9a-f]+|\d+|(?:\d+\.\d*|\.\d+|\d+)(?:e[+-]?\d+)?)", re.IGNORECASE)


def parse_number(text: str) -> Number | None:
    """A string as a number as PowerShell converts it; None when it is none."""
    text = text.strip()
    if not text:
        return 0
    if not _TEXT.fullmatch(text):
        if re.fullmatch(r"[+-]?[\d.,]+([ldnsyu]{0,2}[kmgtp]b)?[ldnsyu]?", text, re.IGNORECASE):
            raise NotEmulated(f"the number '{text}'")
        return None
    if text.lower().lstrip("+-").startswith("0x"):
        if text[0] in "+-":
            raise NotEmulated(f"the number '{text}'")
        return long_or_int(int(text, 16))
    return long_or_int(int(text)) if re.fullmatch(r"[+-]?\d+", text) else float(text)
