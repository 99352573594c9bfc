# SPDX-License-Identifier: Apache-2.0
"""Write lib/hybridlab/api/schemas/protobuf.json: the field numbers of built-in kinds in Kubernetes' protobuf encoding.

kubectl sends protobuf in ``create``, ``auth can-i``, ``create token`` and others, whatever the
server accepts. So the lab's server must read protobuf (it never writes it). The numbers are read
from the struct tags of the public Go types. Run by a developer, never at run time: ``python
tools/generate_protobuf_numbers.py API_DIR APIMACHINERY_DIR`` with checkouts of
github.com/kubernetes/api and github.com/kubernetes/apimachinery.

One message per entry: number -> [JSON name, type code].  Codes: s string, i integer, b boolean, d double, y bytes,
``[X`` list, ``{X`` map, ``.Name`` message (an empty JSON name: its fields belong to the parent), ``wX`` a list in a
message of its own, ``*X`` present even when zero.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import orjson

PACKAGES = {
    "core": "core/v1", "apps": "apps/v1", "authentication": "authentication/v1", "authorization": "authorization/v1",
    "autoscaling": "autoscaling/v1", "coordination": "coordination/v1", "discovery": "discovery/v1",
    "events": "events/v1", "networking": "networking/v1", "policy": "policy/v1", "rbac": "rbac/v1",
}  # fmt: skip
ROOTS = [
    "core.Pod",
    "core.Service",
    "core.Node",
    "core.Namespace",
    "core.ConfigMap",
    "core.Secret",
    "core.ServiceAccount",
    "core.Endpoints",
    "core.Event",
    "core.Binding",
    "apps.Deployment",
    "apps.ReplicaSet",
    "apps.DaemonSet",
    "discovery.EndpointSlice",
    "networking.NetworkPolicy",
    "policy.PodDisruptionBudget",
    "policy.Eviction",
    "coordination.Lease",
    "events.Event",
    "rbac.Role",
    "rbac.ClusterRole",
    "rbac.RoleBinding",
    "rbac.ClusterRoleBinding",
    "autoscaling.Scale",
    "authentication.TokenRequest",
    "authentication.TokenReview",
    "authentication.SelfSubjectReview",
    "authorization.SubjectAccessReview",
    "authorization.LocalSubjectAccessReview",
    "authorization.SelfSubjectAccessReview",
    "authorization.SelfSubjectRulesReview",
    "meta.DeleteOptions",
]
SCALARS = {"string": "s", "bool": "b", "float64": "d"} | dict.fromkeys(
    ("byte", "int", "int32", "int64", "uint32", "uint64"), "i"
)
IMPORTS = {
    "metav1": "meta",
    "v1": "core",
    "corev1": "core",
    "resource": "resource",
    "intstr": "intstr",
    "runtime": "runtime",
    "types": "types",
}
KNOWN = {
    "resource.Quantity": ".Quantity",
    "intstr.IntOrString": ".IntOrString",
    "meta.Time": ".Time",
    "meta.MicroTime": ".MicroTime",
    "meta.FieldsV1": ".FieldsV1",
    "runtime.RawExtension": ".RawExtension",
}
LINE = re.compile(
    r'^\s*(?:\w+\s+)?([\w.*\[\]]+)\s+`json:"([^"]*)" [^`]*?protobuf:"(?:bytes|varint|fixed64),(\d+),[^"]*"'
)


class Sources:
    """All Go types of the packages."""

    def __init__(self, api: Path, machinery: Path) -> None:
        self.structs: dict[str, list[str]] = {}
        self.aliases: dict[str, str] = {}
        for package, folder in PACKAGES.items():
            self._read(package, api / folder)
        self._read("meta", machinery / "pkg/apis/meta/v1")

    def _read(self, package: str, folder: Path) -> None:
        for path in (folder / "types.go", folder / "group_version.go"):
            text = path.read_text() if path.exists() else ""
            for found in re.finditer(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
                self.structs[f"{package}.{found[1]}"] = found[2].splitlines()
            for found in re.finditer(r"^type (\w+) ([\w.\[\]*]+)$", text, re.M):
                self.aliases[f"{package}.{found[1]}"] = found[2]

    def code(self, package: str, declared: str) -> str:
        """Return the type code of a Go type."""
        if declared.startswith("*"):
            inner = self.code(package, declared[1:])
            return inner if inner[0] in ".[{" else "*" + inner
        if declared == "[]byte":
            return "y"
        if declared.startswith("[]"):
            return "[" + self.code(package, declared[2:]).lstrip("*")
        if found := re.match(r"map\[[\w.]+\](.*)", declared):
            return "{" + self.code(package, found[1])
        if declared in SCALARS:
            return SCALARS[declared]
        prefix, dot, name = declared.rpartition(".")
        full = f"{IMPORTS[prefix] if dot else package}.{name}"
        if full in KNOWN:
            return KNOWN[full]
        if full in self.structs:
            return "." + full
        if full in self.aliases:
            inner = self.code(full.partition(".")[0], self.aliases[full])
            # on the wire, a named list is a message of its own
            return f"w{inner[1:]}" if inner.startswith("[") else inner
        return "s"

    def message(self, name: str) -> dict[str, Any]:
        """Return the fields of a message."""
        package = name.partition(".")[0]
        fields = {}
        for line in self.structs[name]:
            found = LINE.match(line)
            if not found:
                continue
            code = self.code(package, found[1])
            fields[found[3]] = [found[2].partition(",")[0], code]
        return fields


def generate(api: Path, machinery: Path) -> dict[str, Any]:
    """Return every message reachable from the roots."""
    sources = Sources(api, machinery)
    messages: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in messages or name not in sources.structs:
            continue
        messages[name] = sources.message(name)
        for _, code in messages[name].values():
            if "." in code:
                waiting.append(code[code.index(".") + 1 :])
    missing = [root for root in ROOTS if not messages.get(root)]
    if missing:
        raise SystemExit(f"types that the sources do not contain: {missing}")
    return dict(sorted(messages.items()))


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "lib/hybridlab/api/schemas/protobuf.json"
    target.write_bytes(orjson.dumps(generate(Path(sys.argv[1]), Path(sys.argv[2]))) + b"\n")
    print(f"{target}: {target.stat().st_size} bytes")
