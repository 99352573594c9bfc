"""Starts a lab whose own code is patched in one place: ``python patched_lab.py PATCH up ...``.

The patches live here and not in the lab: nothing that a user can start knows them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lib"))


def windows_allows_what_policy_denies() -> None:
    """On Windows the end of a tier that no rule matched allows instead of denying."""
    from hybridlab.calico import acls
    from hybridlab.calico.flattener import tier_rules

    def patched(policies: Any, end: Any) -> Any:
        *rules, last = tier_rules(policies, end)
        return [*rules, replace(last, action="Allow") if last.action == "Block" else last]

    acls.tier_rules = patched  # type: ignore[attr-defined]


def allow_rules_deny() -> None:
    """Every rule that allows denies, on both operating systems."""
    from hybridlab.calico.policy import Policy

    true = Policy.rules

    def patched(self: Policy, direction: Any) -> Any:
        rules = true(self, direction)
        return tuple(replace(rule, action="deny") if rule.action == "allow" else rule for rule in rules)

    Policy.rules = patched  # type: ignore[method-assign]


def ports_are_ignored() -> None:
    """Rules match whatever the destination's port is."""
    from hybridlab.calico.policy import Policy, Ports

    true = Policy.rules

    def patched(self: Policy, direction: Any) -> Any:
        rules = true(self, direction)
        return tuple(replace(rule, destination=replace(rule.destination, ports=Ports())) for rule in rules)

    Policy.rules = patched  # type: ignore[method-assign]


def kubelet_probes_of_windows_pods_fail() -> None:
    """Every probe that the kubelet sends to the address of a pod on a Windows node fails; those in the pod do not."""
    from hybridlab.controllers.probes import Prober
    from hybridlab.runtime.model import ProbeResult

    true = Prober._probe

    async def patched(self: Any, probe: Any) -> Any:
        if "windows" in self._pod["spec"].get("nodeName", "") and "exec" not in probe:
            return ProbeResult(ok=False, message="connect: connection timed out")
        return await true(self, probe)

    Prober._probe = patched  # type: ignore[method-assign]


def acl_lists_look_unchanged() -> None:
    """HNS shows nothing of an endpoint's ACL list but what Calico always puts there, whatever was given anew."""
    from hybridlab.calico.acl_lists import AclLists
    from hybridlab.calico.acls import shown

    def patched(self: Any) -> Any:
        return {endpoint: shown(acls)[:1] for endpoint, acls in self._given.items()}

    AclLists.shown = patched  # type: ignore[method-assign]


def every_update_replaces_lists() -> None:
    """Windows endpoints get their ACL list anew with every update, a label's change included, as before v3.31."""
    from hybridlab.calico.acl_lists import AclLists

    true = AclLists.__init__

    def patched(self: Any, calico_version: str) -> None:
        true(self, calico_version)
        self.every_update_replaces = True

    AclLists.__init__ = patched  # type: ignore[method-assign]


PATCHES: dict[str, Callable[[], None]] = {
    item.__name__.replace("_", "-"): item
    for item in (
        windows_allows_what_policy_denies,
        allow_rules_deny,
        ports_are_ignored,
        kubelet_probes_of_windows_pods_fail,
        acl_lists_look_unchanged,
        every_update_replaces_lists,
    )
}


if __name__ == "__main__":
    PATCHES[sys.argv[1]]()
    from hybridlab.cli.main import main

    sys.exit(main(sys.argv[2:]))
