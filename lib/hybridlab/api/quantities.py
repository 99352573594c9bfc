# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities (``250m``, ``1.5Gi``): the numbers they mean, and the form in which the API shows them."""

import re
from decimal import Decimal
from functools import lru_cache

_FORM = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"": 0, "Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES = {exponent: suffix for suffix, exponent in _BINARY.items()}


@lru_cache(maxsize=1024)
def quantity(text: str) -> Decimal:
    """Return the number that a quantity means. Raise ValueError if the text is no quantity."""
    found = _FORM.match(text)
    if not found or found[1].count(".") > 1 or not any(char.isdigit() for char in found[1]):
        raise ValueError(f"{text!r} is not a quantity")
    number = Decimal(found[1])
    suffix = found[2] or ""
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number * 1024 ** _BINARY[suffix] if suffix in _BINARY else Decimal(found[1] + suffix)


@lru_cache(maxsize=1024)
def canonical(text: str) -> str:
    """Return a quantity as the API shows it: without a fraction, with the largest suffix of the
    same family of suffixes."""
    number = quantity(text)
    suffix = text.lstrip("+-0123456789.")
    if (
        suffix in _BINARY
        and suffix
        and number == number.to_integral_value()
        and abs(number) >= 1024
    ):
        mantissa = int(number)
        exponent = 0
        while mantissa % 1024 == 0 and exponent < 6:
            mantissa = mantissa // 1024
            exponent = exponent + 1
        return f"{mantissa}{_BINARY_SUFFIXES[exponent]}"
    if number == 0:
        return "0"
    exponent = -9
    digits = int(number.scaleb(9).to_integral_value(rounding="ROUND_CEILING"))
    while digits % 1000 == 0 and exponent < 18:
        digits = digits // 1000
        exponent = exponent + 3
    if suffix[:1] in {"e", "E"} and suffix != "E":
        return f"{digits}e{exponent}" if exponent else str(digits)
    return f"{digits}{_DECIMAL_SUFFIXES[exponent]}"
