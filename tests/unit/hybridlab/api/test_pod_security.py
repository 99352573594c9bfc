# SPDX-License-Identifier: Apache-2.0
"""Each control of Pod Security admission refuses what it is about, in the plugin's words."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.api.kinds.pod_security import violations

GOOD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
UNCONFINED = {"type": "Unconfined"}


def a_spec(*contexts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a pod's spec with containers a, b and so on, one per security context."""
    containers = [
        {"name": name, "securityContext": context}
        for name, context in zip("abc", contexts, strict=False)
    ]
    return {"containers": containers, **fields}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


BASELINE = [
    (a_spec({}, hostPID=True), "host namespaces (hostPID=true)"),
    (
        a_spec({"privileged": True}, {"privileged": True}),
        'privileged (containers "a", "b" must not set securityContext.privileged=true)',
    ),
    (
        a_spec({"capabilities": {"add": ["NET_ADMIN", "KILL"]}}),
        'non-default capabilities (container "a" must not include "NET_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        a_spec({}, volumes=[{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]),
        'hostPath volumes (volumes "v", "w")',
    ),
    (
        {"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 80}]}]},
        'hostPort (container "a" uses hostPorts 80)',
    ),
    (
        a_spec({"windowsOptions": {"hostProcess": True}}, {}),
        'hostProcess (container "a" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
    (
        a_spec({}, securityContext={"windowsOptions": {"hostProcess": True}}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
    (a_spec({}, securityContext={"sysctls": [{"name": "x.y"}]}), "forbidden sysctls (x.y)"),
    (
        a_spec({}, {"seccompProfile": UNCONFINED}, securityContext={"seccompProfile": UNCONFINED}),
        'seccompProfile (container "b" must not set securityContext.seccompProfile.type to '
        '"Unconfined")',
    ),
    (
        a_spec({}, securityContext={"seccompProfile": UNCONFINED}),
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
]
RESTRICTED = [
    (
        a_spec(GOOD, without("allowPrivilegeEscalation")),
        'allowPrivilegeEscalation != false (container "b" must set '
        "securityContext.allowPrivilegeEscalation=false)",
    ),
    (
        a_spec(without("capabilities")),
        'unrestricted capabilities (container "a" must set '
        'securityContext.capabilities.drop=["ALL"])',
    ),
    (a_spec(GOOD, volumes=[{"name": "n", "nfs": {}}]), 'restricted volume types (volume "n")'),
    (
        a_spec(without("runAsNonRoot")),
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
    ),
    (
        a_spec({**GOOD, "runAsUser": 0}),
        'runAsUser=0 (container "a" must not set runAsUser=0)',
    ),
    (a_spec(GOOD, securityContext={"runAsUser": 0}), "runAsUser=0 (pod must not set runAsUser=0)"),
    (
        a_spec(without("seccompProfile")),
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
    ),
]


@pytest.mark.parametrize(("spec", "expected"), BASELINE)
def test_baseline_forbids(spec: dict[str, Any], expected: str) -> None:
    assert violations("baseline", spec) == [expected]
    assert expected in violations("restricted", spec)
    assert violations("privileged", spec) == []


@pytest.mark.parametrize(("spec", "expected"), RESTRICTED)
def test_restricted_forbids_more_than_baseline(spec: dict[str, Any], expected: str) -> None:
    assert violations("restricted", spec) == [expected]
    assert violations("baseline", spec) == []


@pytest.mark.parametrize("name", ["runAsNonRoot", "seccompProfile"])
def test_the_context_of_the_pod_stands_for_its_containers(name: str) -> None:
    assert violations("restricted", a_spec(without(name), securityContext={name: GOOD[name]})) == []


def test_windows_pods_need_none_of_what_only_linux_has() -> None:
    spec = a_spec({"runAsNonRoot": True}, os={"name": "windows"})
    assert violations("restricted", spec) == []
