# SPDX-License-Identifier: Apache-2.0
"""The table of everything that the suite may change and restore: every kind, field, range and
procedure.

Any user who may write ConfigMaps in the suite's namespace can write a journal. An entry that does
not fit this table is never applied, and the suite makes no change that does not fit it. A new
disruption begins with a row here.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.journal.fields import Content, Field, putting_back
from conformance.journal.record import Entry
from conformance.kube.ownership import CORDON_ANNOTATION, NAMESPACE_PREFIX
from conformance.model.change import ObjectRef

NAME = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
"""Matches names of objects and namespaces (DNS subdomains), which are safe in a command."""
SHORT_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?")
"""Matches ids of runs, and keys of entries, which become part of an annotation's name."""
OLD = "an earlier release wrote this entry and left no mark on the object"

_VNI = (
    "[1-9][0-9]{0,6}|1[0-5][0-9]{6}|16[0-6][0-9]{5}|167[0-6][0-9]{4}|1677[0-6][0-9]{3}|16777[01][0-9]{2}"
    "|167772(0[0-9]|1[0-5])"
)
"""Matches 1 to 16,777,215, which is the range of 24 bits."""
_VARIABLE = re.compile(
    rf'\{{"name":"VXLAN_VNI"(?:,"value":"(?P<value>({_VNI})?)"'
    r'|,"valueFrom":\{"configMapKeyRef":\{[^{}]*\}\})?\}'
)
"""Matches the VNI among the environment variables of calico-node-windows."""
_NODE_ALONE = r'\{"node":"NAME"\}'


@dataclass(frozen=True, kw_only=True)
class Row:
    """A kind of change. All fields are regular expressions for compact JSON with sorted keys. NAME
    stands for any name, OWN for the beginning of the names of the run's namespaces."""

    what: str
    """The act, procedure, API version, kind, namespace and name."""
    fields: Mapping[tuple[str, ...], tuple[str, str]] = field(default_factory=dict)
    """Allowed contents of each field before the change (``absent``: nothing) and after it."""
    arguments: str = r"\{\}"
    """The arguments of a procedure."""
    by_hand: str = ""
    """The command that undoes the change; empty if a patch of the fields undoes it."""


_TEMPLATE = ("spec", "template", "spec")
ROWS = (
    Row(
        what='"patch","","v1","Node",null,"NAME"',
        fields={
            ("spec", "unschedulable"): ("absent|null|false|true", "true"),
            ("metadata", "annotations", CORDON_ANNOTATION): ('absent|"NAME"', '"NAME"'),
        },
    ),
    Row(
        what='"patch","","projectcalico.org/v3","FelixConfiguration",null,"default"',
        fields={
            ("spec", "vxlanVNI"): (f"absent|{_VNI}", _VNI),
            ("spec", "vxlanPort"): ("absent|[1-9][0-9]{0,4}", "[1-9][0-9]{0,4}"),
        },
    ),
    Row(
        what='"patch","","apps/v1","DaemonSet","(calico-system|kube-system)","calico-node-windows"',
        fields={(*_TEMPLATE, name): (".+", ".+") for name in ("containers", "initContainers")},
        by_hand="kubectl set env -n {namespace} daemonset/{name} VXLAN_VNI={vni}",
    ),
    Row(
        what='"patch","","projectcalico.org/v3","IPPool",null,"OWNNAME"',
        fields={("spec", "blockSize"): ("2[0-9]|3[0-2]", "2[0-9]|3[0-2]")},
    ),
    Row(
        what='"patch","","projectcalico.org/v3","IPPool",null,"NAME"',
        fields={("spec", "vxlanMode"): ('"(Always|CrossSubnet)"', '"(Always|CrossSubnet)"')},
    ),
    Row(
        what='"create","","projectcalico.org/v3","(IPPool|CalicoNodeStatus)",null,"OWNNAME"',
        by_hand="kubectl delete {kind}.projectcalico.org {name}",
    ),
    Row(what='"delete-owned-pod","","v1","Pod","NAME","NAME"', by_hand="nothing has to be done"),
    Row(
        what='"procedure","hns-network","v1","Node",null,"NAME"', arguments=_NODE_ALONE,
        by_hand="kubectl drain {name} --ignore-daemonsets, restart the node, kubectl uncordon {name}",
    ),
    Row(
        what='"procedure","felix-restart","v1","Node",null,"NAME"', arguments=_NODE_ALONE,
        by_hand="check that calico-node is Ready: kubectl get pods -A --field-selector spec.nodeName={name}",
    ),
    Row(
        what='"procedure","daemonset-pods","v1","Node",null,"NAME"',
        arguments=r'\{"node":"NAME","pods":\[(\{"name":"NAME","namespace":"NAME","uid":"NAME"\},?)+\]\}',
        by_hand="delete pods without a network: kubectl get pods -A --field-selector spec.nodeName={name}",
    ),
    Row(
        what='"procedure","policy-that-may-end-felix","v1","Node",null,"NAME"',
        arguments=r'\{"namespace":"OWNNAME","node":"NAME","policies":\[("NAME",?)+\]\}',
        by_hand="kubectl delete namespaces -l calico-conformance/run, then check that calico-node is Ready: "
        "kubectl get pods -A --field-selector spec.nodeName={name}",
    ),
)  # fmt: skip
"""All kinds of changes that the suite may make and restore. Procedures have the names of their
healers (``undo/healers.py``)."""


def refusal(entry: Entry) -> str:
    """Return why the suite never makes a change like that of an entry; an empty string if the entry
    fits the table."""
    row = _row(entry)
    if row is None:
        return "this suite makes no such change"
    if wrong := [field.label[:100] for field in entry.fields if not _fits(field, row)]:
        return f"this suite does not change {', '.join(wrong)} in such a way"
    return "" if entry.run else OLD


def by_hand(entry: Entry) -> str:
    """Return the command that undoes an entry's change by hand; an empty string for an entry that
    does not fit the table."""
    row = _row(entry)
    target = _target(entry)
    if row is None or target is None or refusal(entry) not in ("", OLD):
        return ""
    if row.by_hand:
        found = [
            match["value"]
            for field in entry.fields
            for match in _VARIABLE.finditer(_text(field.before))
        ]
        return row.by_hand.format(
            name=target.name,
            namespace=target.namespace,
            kind=target.kind.lower(),
            vni=(found or [""])[0] or "",
        )
    what = (
        f"{target.kind}.{target.api_version.partition('/')[0]}"
        if "/" in target.api_version
        else target.kind
    )
    patch = shlex.quote(json.dumps(putting_back(entry.fields, {})))
    return f"kubectl patch {what.lower()} {target.name} --type=merge -p {patch}"


def _target(entry: Entry) -> ObjectRef | None:
    """Return the object of an entry. Entries of earlier releases name a procedure's node only in
    the arguments."""
    node = entry.arguments.get("node")
    old = (
        None
        if entry.run or node is None
        else ObjectRef(api_version="v1", kind="Node", name=str(node))
    )
    return entry.target or old


def _row(entry: Entry) -> Row | None:
    target = _target(entry)
    named = all(map(SHORT_NAME.fullmatch, (entry.key, entry.run or "any")))
    identified = named and (entry.uid or entry.act == "create" or not entry.run)
    if (
        target is None
        or not identified
        or entry.arguments.get("node", target.name) != target.name
        or ((entry.act == "patch") != bool(entry.fields))
    ):
        return None
    own = f"{NAMESPACE_PREFIX}{entry.run}-" if entry.run else NAMESPACE_PREFIX
    key = _json(
        [entry.act, entry.procedure, target.api_version, target.kind, target.namespace, target.name]
    )
    held = _json(entry.arguments)
    fits = (
        row
        for row in ROWS
        if _matches(rf"\[{row.what}\]", key, own) and _matches(row.arguments, held, own)
    )
    return next(fits, None)


def _fits(field: Field, row: Row) -> bool:
    """Return whether a field is one of the row's fields, with contents that the row allows."""
    before = _text(field.before)
    ours = _text(field.ours)
    forms = row.fields.get(field.path)
    if forms is None or not 0 <= field.parents < len(field.path):
        return False
    if field.path[:3] == _TEMPLATE and _VARIABLE.sub("VNI", before) != _VARIABLE.sub("VNI", ours):
        return False  # the change affects more than the VNI of containers
    return _matches(forms[0], before) and _matches(forms[1], ours)


def _matches(pattern: str, text: str, own: str = "") -> bool:
    return (
        re.fullmatch(pattern.replace("OWN", re.escape(own)).replace("NAME", NAME), text) is not None
    )


def _text(content: Content) -> str:
    return _json(content.value) if content.present else "absent"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
