# SPDX-License-Identifier: Apache-2.0
"""Seconds and bytes of ``calico-conformance policy`` for 300 pods and 40 policies.

``python -m benchmarks.policy_size [--pods N] [--policies N] [--write FILE]`` prints the smallest of
three measurements for each format, and the machine's load. The input is generated here and is the
same in every run: the output of ``kubectl get -A -o yaml`` for 20 namespaces on mixed nodes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

Obj = dict[str, Any]
NAMESPACES = 20
NODES = 12
APPS = ("web", "api", "db", "cache", "worker", "cron", "mail")
FORMATS = ("text", "json", "markdown", "html")
SEED = 55


def objects(pods: int, policies: int) -> list[Obj]:
    """Return namespaces, nodes, pods, and policies of both APIs in two tiers."""
    chance = random.Random(SEED)
    made = [_node(number) for number in range(NODES)]
    made += [
        _of("v1", "Namespace", f"team-{number}", labels={"env": ("prod", "test")[number % 2]})
        for number in range(NAMESPACES)
    ]
    made.append(
        {
            **_of("projectcalico.org/v3", "Tier", "platform"),
            "spec": {"order": 100, "defaultAction": "Pass"},
        }
    )
    made += [_pod(number) for number in range(pods)]
    return made + [_policy(number, chance) for number in range(policies)]


def _of(api: str, kind: str, name: str, namespace: str = "", labels: Obj | None = None) -> Obj:
    meta: Obj = {
        "name": name,
        "labels": labels or {},
        "uid": f"{kind}-{name}",
        "resourceVersion": "1",
    }
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": meta}


def _node(number: int) -> Obj:
    system = "windows" if number % 3 == 0 else "linux"
    node = _of("v1", "Node", f"node-{number}", labels={"kubernetes.io/os": system})
    return {
        **node,
        "status": {"addresses": [{"type": "InternalIP", "address": f"10.0.0.{number + 1}"}]},
    }


def _pod(number: int) -> Obj:
    app, space = APPS[number % len(APPS)], f"team-{number % NAMESPACES}"
    pod = _of(
        "v1", "Pod", f"{app}-{number}", space, {"app": app, "tier": ("front", "back")[number % 2]}
    )
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    container = {"name": app, "image": f"registry.example/{app}:1", "ports": ports, "resources": {}}
    spec = {"nodeName": f"node-{number % NODES}", "containers": [container]}
    address = f"192.168.{number // 250}.{number % 250 + 1}"
    conditions = [
        {"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "PodScheduled")
    ]
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
    }
    return {**pod, "spec": spec, "status": status}


def _policy(number: int, chance: random.Random) -> Obj:
    space = f"team-{number % NAMESPACES}"
    app = chance.choice(APPS)
    if number % 4 == 3:
        policy = _of("projectcalico.org/v3", "GlobalNetworkPolicy", f"platform.p{number}")
        ports = {"ports": [chance.randint(1, 60000), f"{8000 + number}:{8100 + number}"]}
        rules = [
            {
                "action": "Deny",
                "protocol": "TCP",
                "source": {"notNets": ["192.168.0.0/24"]},
                "destination": ports,
            },
            {"action": "Pass"},
        ]
        return {
            **policy,
            "spec": {
                "tier": "platform",
                "order": number,
                "selector": f"app == '{app}'",
                "ingress": rules,
            },
        }
    policy = _of("networking.k8s.io/v1", "NetworkPolicy", f"p{number}", space)
    peers = [
        {"podSelector": {"matchLabels": {"app": chance.choice(APPS)}}},
        {
            "namespaceSelector": {"matchLabels": {"env": "prod"}},
            "podSelector": {"matchLabels": {"tier": "front"}},
        },
        {"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.1.0/28"]}},
    ]
    chance.shuffle(peers)
    port = {"protocol": "TCP", "port": "http" if number % 5 == 0 else chance.randint(1, 60000)}
    rule = {"from": peers[:2], "ports": [port]}
    spec = {
        "podSelector": {"matchLabels": {"app": app}},
        "policyTypes": ["Ingress"],
        "ingress": [rule],
    }
    return {**policy, "spec": spec}


def measured(file: Path, form: str) -> tuple[float, float, int]:
    """Return the CPU seconds, the elapsed seconds, and the output bytes of a run."""
    command = [sys.executable, "-m", "conformance.cli", "policy", str(file), "--format", form]
    begun, before = time.monotonic(), _of_children()
    done = subprocess.run(command, check=True, capture_output=True)
    return _of_children() - before, time.monotonic() - begun, len(done.stdout)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--policies", type=int, default=40)
    parser.add_argument("--write", type=Path, help="write the input there, and measure nothing")
    options = parser.parse_args()
    text = yaml.safe_dump_all(objects(options.pods, options.policies), sort_keys=False)
    if options.write:
        options.write.write_text(text)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text(text)
        print(f"{options.pods} pods, {options.policies} policies, {len(text):,} bytes of YAML")
        for form in FORMATS:
            cpu, seconds, size = min(measured(file, form) for _ in range(3))
            load = os.getloadavg()[0]
            print(f"{form:8} {cpu:5.2f} s CPU {seconds:6.2f} s {size:9,} bytes  load {load:.1f}")


if __name__ == "__main__":
    main()
