"""Numbers: Int32 is ``int``, Int64 is :class:`Long`, Double is ``float``; arithmetic with .NET's ranges."""

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
