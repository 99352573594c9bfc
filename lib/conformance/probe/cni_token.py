"""When the token in the CNI plugin's kubeconfig ends: what the program on a Windows host prints, as a moment.  Pure.

The program is manifests/nodes/cni_token.ps1.  The token itself is a credential, and stays on the host.
"""

import base64
import binascii
import re
from datetime import UTC, datetime

from conformance.errors import ProbeBroken
from conformance.probe.host_programs import one_line

PROGRAM = one_line("cni_token.ps1")
_EXP = re.compile(rb'"?exp":(\d{9,11})')


def parse(text: str, where: str) -> list[datetime | None]:
    """The end of the token of each kubeconfig that is there; None: it has no end that is found.

    Raises ProbeBroken, naming ``where``, for an output without its end or of another shape.
    """
    *lines, last = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if last != "end":
        raise ProbeBroken(f"{where}: cni_token.ps1 printed no end", transport="cut off")
    return [_end(line, where) for line in lines]


def _end(line: str, where: str) -> datetime | None:
    word, _, letters = line.partition(" ")
    try:
        plain = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
    except (binascii.Error, ValueError):
        word = ""
    found = _EXP.search(plain) if word == "token" else None
    if word != "token" or (letters and not found):
        raise ProbeBroken(
            f"{where}: cni_token.ps1 printed a line of another shape", transport="garbled output"
        )
    return datetime.fromtimestamp(int(found[1]), UTC) if found else None
