# SPDX-License-Identifier: Apache-2.0
"""The KB number of a Windows node's update, if a label or annotation of the node names it.

Kubernetes reports build and revision (``.status.nodeInfo.kernelVersion``, ``10.0.20348.2762``) and
no KB number. Only Microsoft's update history, not the API, maps a revision to an update, and this
module guesses nothing. Windows itself lists installed updates:
:mod:`conformance.facts.node_readings`.
"""

import re
from collections.abc import Mapping

from conformance.model.facts import Fact

KB = re.compile(r"(?<![A-Za-z0-9])KB\d{6,8}(?![A-Za-z0-9])", re.IGNORECASE)
"""Matches a KB number. Microsoft's articles have six or seven digits; the newest begin with 5."""


def windows_update(
    kernel: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Fact[str]:
    """Return the KB number (``KB5044281``) in a label or annotation of a Windows node; further
    numbers follow with commas.

    ``kernel``: the node's ``kernelVersion``.  The fact is unknown if no label or annotation has a
    KB number.
    """
    for what, entries in (("label", labels), ("annotation", annotations)):
        for name, value in sorted(entries.items()):
            named = dict.fromkeys(number.upper() for number in KB.findall(f"{name} {value}"))
            if named:
                return Fact(", ".join(named), f"{what} {name} of the node")
    return Fact(
        None,
        f"not known: Kubernetes reports only build and revision ({kernel or 'and not even these here'}), and no label or "
        "annotation of the node names a KB; Microsoft's update history shows which update has this revision",
    )
