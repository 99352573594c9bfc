"""The -f operator: places and widths; the formats of numbers are not emulated."""

import re

from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import to_text
from hybridlab.powershell.syntax import NotEmulated

_HOLE = re.compile(r"\{(\d+)(?:,\s*(-?\d+))?(?::([^{}]*))?\}")


def format_text(template: str, arguments: list[object]) -> str:
    """``{0}``, ``{0,8}``.  Raises Fault for a wrong template or too few arguments."""
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
        if match[3]:
            raise NotEmulated(f"the format {{0:{match[3]}}}")
        if isinstance(value, (list, bytes)):
            raise NotEmulated("-f of this value without a format")
        text = to_text(value)
        width = int(match[2] or 0)
        made += text.rjust(width) if width >= 0 else text.ljust(-width)
        place = match.end()
    return made


def _fault(message: str) -> Fault:
    return Fault(f"Error formatting a string: {message}.", "InvalidOperation: (:) [], RuntimeException", "FormatError")
