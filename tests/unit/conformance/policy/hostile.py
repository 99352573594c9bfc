# SPDX-License-Identifier: Apache-2.0
"""Hostile input for ``calico-conformance policy``: valid objects with one wrong value, and texts
that are no objects."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tests import fast_yaml

VALID = """
- {apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {team: x}}}
- apiVersion: v1
  kind: Node
  metadata: {name: n, labels: {kubernetes.io/os: linux}}
  status: {addresses: [{type: InternalIP, address: 10.0.0.1}], nodeInfo: {operatingSystem: linux}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: s, namespace: a, labels: {r: t}}}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: rc}, handler: h, scheduling: {nodeSelector: {kubernetes.io/os: windows}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: a, labels: {app: web}}
  spec:
    nodeName: n
    runtimeClassName: rc
    os: {name: windows}
    nodeSelector: {beta.kubernetes.io/os: windows}
    securityContext: {windowsOptions: {runAsUserName: x}}
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: [windows]}]}]
    containers: [{name: c, ports: [{name: http, containerPort: 80, protocol: TCP}]}]
  status: {podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: "fd00::1"}], conditions: [{type: Ready, status: "True"}], phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: q, namespace: a, labels: {app: db}}
  spec: {containers: [{name: c}]}
- {apiVersion: v1, kind: Service, metadata: {name: svc, namespace: a}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: http, protocol: TCP}]}}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: e, namespace: a, labels: {kubernetes.io/service-name: other}}
  ports: [{port: 80, protocol: TCP}]
  endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}}]
- {apiVersion: projectcalico.org/v3, kind: Tier, metadata: {name: t}, spec: {order: 5, defaultAction: Pass}}
- {apiVersion: projectcalico.org/v3, kind: NetworkSet, metadata: {name: ns, namespace: a, labels: {x: y}}, spec: {nets: [10.9.0.0/16]}}
- {apiVersion: projectcalico.org/v3, kind: HostEndpoint, metadata: {name: h, labels: {x: y}}, spec: {node: n}}
- apiVersion: projectcalico.org/v3
  kind: GlobalNetworkPolicy
  metadata: {name: t.g}
  spec:
    tier: t
    order: 10
    selector: has(app)
    namespaceSelector: has(team)
    serviceAccountSelector: all()
    types: [Ingress, Egress]
    applyOnForward: false
    ingress:
    - action: Deny
      protocol: TCP
      ipVersion: 4
      source: {nets: [10.0.0.0/8], notNets: [10.9.0.0/16], selector: x == 'y', namespaceSelector: all(), serviceAccounts: {names: [s], selector: r == 't'}}
      destination: {ports: [80, "90:95", http], notPorts: [91], notSelector: x == 'z'}
    - {action: Allow, protocol: TCP, http: {methods: [GET]}}
    egress:
    - {action: Pass, protocol: ICMP, icmp: {type: 8, code: 0}, notICMP: {type: 3}, metadata: {annotations: {a: b}}}
    - {action: Allow, destination: {services: {name: svc, namespace: a}}}
    - {action: Log}
- apiVersion: networking.k8s.io/v1
  kind: NetworkPolicy
  metadata: {name: k, namespace: a}
  spec:
    podSelector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: In, values: [web]}]}
    policyTypes: [Ingress, Egress]
    ingress:
    - from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/24]}}, {namespaceSelector: {}, podSelector: {}}]
      ports: [{protocol: TCP, port: 80, endPort: 90}, {protocol: UDP, port: http}]
    egress: [{to: [{podSelector: {}}]}]
- apiVersion: policy.networking.k8s.io/v1alpha1
  kind: AdminNetworkPolicy
  metadata: {name: anp}
  spec:
    priority: 5
    subject: {pods: {namespaceSelector: {matchLabels: {team: x}}, podSelector: {}}}
    ingress: [{name: r, action: Deny, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP, port: 80}}, {portRange: {start: 1, end: 2}}, {namedPort: http}]}]
    egress: [{action: Pass, to: [{networks: [10.0.0.0/8]}, {nodes: {}}]}]
- apiVersion: policy.networking.k8s.io/v1alpha2
  kind: ClusterNetworkPolicy
  metadata: {name: cnp}
  spec:
    tier: Admin
    priority: 5
    subject: {namespaces: {}}
    egress: [{action: Accept, to: [{pods: {podSelector: {}, namespaceSelector: {}}}], protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {destinationPort: {range: {start: 5, end: 9}}}}, {destinationNamedPort: http}]}]
- {apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: c, namespace: b}, spec: {}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: d, namespace: a}
  spec: {selector: {matchLabels: {app: dep}}, template: {metadata: {labels: {app: dep}}, spec: {containers: [{name: c}]}}}
"""

_LOOP: list[Any] = []
_LOOP.append(_LOOP)
BOMB: Any = ["x"] * 9
for _ in range(9):
    BOMB = [BOMB] * 9
VALUES: tuple[Any, ...] = (
    None, "", "x", 0, -1, 1, 2**70, 1.5, float("nan"), float("inf"), True, False, [], {}, [[]], [{}], [None],
    {"a": {}}, {"Ingress": None}, [["a"]], [{"Ingress": None}], "\u00b2", "\u0663", "a\nb", "x" * 5000, "!" * 3000 + "x",
    "(" * 3000, "a == 'b' && " * 2000 + "c", {1: 2}, {None: None}, {("a",): 1}, "10.0.0.0/8", "fd00::/8", "::", "0.0.0.0/0",
    "10.1.2.3/8", "80:70", "0:70000", -80, "\u0000", "\ud800", b"bytes", __import__("datetime").date(2026, 1, 1), _LOOP, BOMB, {"matchLabels": 1},
    {"matchExpressions": [{"key": "a", "operator": ["In"], "values": "abc"}]},
)  # fmt: skip
TEXTS: tuple[bytes, ...] = (
    b"", b"---\n---\n", b"null", b"[]", b"[[], [[]]]", b"3", b"\xff\xfe", b"\x00", b"a: [", b"- - - -", b"{a: b}: c", b"? [a]\n: b",
    b"a: &a [*a]", b"&a {kind: *a, metadata: *a, apiVersion: *a}", b"[" * 100_000, b"{" * 100_000, b"- " * 100_000,
    b"a: " + b"9" * 100_000, b"a: 2026-99-99", b"a: !!python/object:os.system x", b"a: !!binary x", b"a: !!float x", b"a: !!set x",
    b"kind: List\napiVersion: v1\nitems: 3", b"kind: List\napiVersion: v1\nitems: [3]", b"kind: List\napiVersion: v1\nitems: {a: b}",
    b'{"kind": "Pod"}', b"<html>404</html>", b"404: Not Found", b"{{ .Values.x }}", b"a: b\n\tc: d", b"%YAML 9.9\n---\na: b",
    b"kind: [a]\nmetadata: {name: x}\napiVersion: v1", b"kind: Pod\nmetadata: {name: [x]}\napiVersion: v1", b"kind: Pod\nmetadata: x\napiVersion: v1",
    b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nkind: &d [*c,*c,*c,*c,*c,*c]\nmetadata: *d\napiVersion: *d",
    b"\xef\xbb\xbfkind: Pod\r\napiVersion: v1\r\nmetadata: {name: x}\r\n",
)  # fmt: skip


def valid() -> list[Any]:
    """Return objects of every kind that the command reads."""
    read: list[Any] = fast_yaml.load(VALID)
    return read


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place in a value, as the keys that lead to it."""
    if path:
        yield path
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in entries:
        yield from places(inner, (*path, key))


def changed(objects: list[Any], path: tuple[Any, ...], value: Any, how: str) -> list[Any]:
    """Return the objects with the value at a place replaced, wrapped in a list, doubled, or with a
    strange key added."""
    made = copy.deepcopy(objects)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    new = {"replaced": value, "wrapped": [old], "nested": {"x": old}, "doubled": [old, old]}.get(
        how, value
    )
    if how == "gone":
        del holder[path[-1]]
    elif how == "beside" and isinstance(old, dict):
        old[value if isinstance(value, str | int | None) else "strange"] = value
    else:
        holder[path[-1]] = new
    return made


HOWS = ("replaced", "replaced", "replaced", "wrapped", "nested", "doubled", "gone", "beside")


def at_random(chance: random.Random, objects: list[Any]) -> list[Any]:
    """Return the objects with one to three random changes."""
    made = objects
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        # an earlier change may have inserted a bomb with more places than memory
        path = chance.choice(list(islice(places_of(made), 5000)))
        made = changed(made, path, chance.choice(VALUES), chance.choice(HOWS))
    return made


def places_of(objects: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all objects that do not contain themselves."""
    for number, obj in enumerate(objects):
        yield from _shallow(obj, (number,), 0)


def _shallow(value: Any, path: tuple[Any, ...], depth: int) -> Iterator[tuple[Any, ...]]:
    yield path
    if depth > 12:
        return
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:9])
        if isinstance(value, list)
        else ()
    )
    for key, inner in entries:
        yield from (
            _shallow(inner, (*path, key), depth + 1)
            if inner is not value and inner is not BOMB
            else ()
        )
