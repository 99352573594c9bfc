# SPDX-License-Identifier: Apache-2.0
"""Wrong readings of the amount of a policy: only the first entries of a list, or only short names,
are read."""

from __future__ import annotations

import re

from tests.worlds.editing import (
    DIRECTIONS,
    Edit,
    Obj,
    each_end,
    each_list,
    is_kubernetes,
    lost,
    of_kind,
    policies_of,
)

MOST = 15
"""The number of entries that are read: iptables' multiport accepts no more ports."""
LONGEST = 63
"""The maximum length of a label's value; names of policies may have 253 characters."""


def _values(text: str) -> str:
    """Keep only the first values of each ``in`` and ``not in``."""
    return re.sub(
        r"\{([^}]*)\}", lambda found: "{" + ",".join(found[1].split(",")[:MOST]) + "}", text
    )


def _selectors(spec: Obj) -> None:
    rules = [rule for way in DIRECTIONS for rule in spec.get(way) or []]
    for one in (
        spec,
        *(rule.get(side) or {} for rule in rules for side in ("source", "destination")),
    ):
        one.update(
            {key: _values(text) for key, text in one.items() if key.lower().endswith("selector")}
        )


def _entries(key: str) -> Edit:
    return each_end(lambda end: end.update({key: end[key][:MOST]}) if end.get(key) else None)


def _long(obj: Obj) -> bool:
    return obj["kind"].endswith("NetworkPolicy") and len(obj["metadata"]["name"]) > LONGEST


def _set_nets(obj: Obj) -> Obj:
    return {**obj, "spec": {**obj["spec"], "nets": obj["spec"]["nets"][:MOST]}}


EDITS: dict[str, Edit] = {
    f"nets of a rule: first {MOST} only": _entries("nets"),
    f"nets of a NetworkSet: first {MOST} only": of_kind("NetworkSet", _set_nets),
    f"rules: first {MOST} only": each_list(lambda rules: rules[:MOST]),
    f"values in selectors: first {MOST} only": policies_of(
        lambda obj: not is_kubernetes(obj), _selectors
    ),
    f"policies with names of more than {LONGEST} characters lost": lost(_long),
}
