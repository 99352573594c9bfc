# SPDX-License-Identifier: Apache-2.0
"""An operator by ``kopf``, and a custom resource that it handles: ``python kopf_operator.py KUBECONFIG NAMESPACE``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kopf

from tests.contract.clients.programs.steps import step

KUBECONFIG, NAMESPACE = sys.argv[1:3] if Path(sys.argv[0]).name == Path(__file__).name else ("", "")
KUBECTL = os.environ.get("KUBECTL", "kubectl")
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: examples.kopf.dev}
spec:
  group: kopf.dev
  scope: Namespaced
  names: {plural: examples, singular: example, kind: Example}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@kopf.on.create("kopf.dev", "v1", "examples")  # type: ignore[untyped-decorator, unused-ignore]
def created(spec: Any, patch: Any, body: Any, **_: Any) -> dict[str, Any]:
    kopf.info(body, reason="Made", message="by an operator")
    patch.status["made"] = spec.get("value", "")
    return {"seen": True}


@kopf.on.delete("kopf.dev", "v1", "examples")  # type: ignore[untyped-decorator, unused-ignore]
def deleted(**_: Any) -> None:
    pass


def kubectl(*words: str, given: str = "") -> str:
    call = [KUBECTL, f"--kubeconfig={KUBECONFIG}", *words]
    return subprocess.run(
        call, input=given, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def until(*words: str, has: str) -> None:
    for _ in range(60):
        if has in kubectl(*words):
            return
        time.sleep(0.5)
    raise AssertionError(f"not {has!r} in 30 s: {' '.join(words)}")


def main() -> None:
    kubectl("create", "namespace", NAMESPACE)
    kubectl("apply", "-f", "-", given=DEFINITION)
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        f"--namespace={NAMESPACE}",
        __file__,
    ]
    operator = subprocess.Popen(
        command, env={**os.environ, "KUBECONFIG": KUBECONFIG}, stderr=subprocess.DEVNULL
    )
    example = (
        f"apiVersion: kopf.dev/v1\nkind: Example\nmetadata: {{name: e, namespace: {NAMESPACE}}}\n"
    )
    here = f"--namespace={NAMESPACE}"
    try:
        step(
            "create",
            lambda: kubectl("apply", "-f", "-", given=f"{example}spec: {{value: right}}\n"),
        )
        status = (
            "get",
            "examples",
            "e",
            here,
            "-o",
            "jsonpath={.status.made} {.metadata.finalizers}",
        )
        step("status by patch", lambda: until(*status, has="right"))
        step("finalizer", lambda: until(*status, has="kopf"))
        step("events", lambda: until("get", "events", here, has="by an operator"))
        step(
            "delete with the finalizer",
            lambda: kubectl("delete", "examples", "e", here, "--timeout=30s"),
        )
    finally:
        operator.terminate()
        operator.wait(20)
        kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        kubectl("delete", "crd", "examples.kopf.dev", "--wait=false")


if __name__ == "__main__":
    main()
