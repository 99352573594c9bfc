# SPDX-License-Identifier: Apache-2.0
"""The documented patch is tried where it changes nothing; CNI configurations are compared with
the API's objects about a node's network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.facts.cni_plugins import MEANT, CniPlugins
from conformance.facts.documented_patch import DONE, DocumentedPatch
from conformance.kube.refused import ApiRefused
from conformance.model.facts import Fact
from tests.unit.conformance.builders import a_node


def trial(answer: Any, *values: bool) -> DocumentedPatch:
    """A server that answers the patch, and has these values one after the other."""
    left = list(values or (True,))

    def tried(target: Any, patch: Any) -> Any:
        assert (target.kind, patch) == ("IPAMConfiguration", {"spec": {"strictAffinity": True}})
        if isinstance(answer, Exception):
            raise answer
        return answer

    def affinity() -> dict[str, Fact[bool]]:
        return {"a": Fact(left.pop(0) if len(left) > 1 else left[0], "b")}

    changes: Any = SimpleNamespace(tried_patch=tried)
    calico: Any = SimpleNamespace(strict_affinity=affinity)
    return DocumentedPatch(changes, calico)


def test_a_command_that_is_accepted_leaves_the_value() -> None:
    on = {"spec": {"strictAffinity": True}}
    assert [fact.value for fact in trial(on).tried().values()] == [DONE]
    (lost,) = trial({"spec": {"strictAffinity": False}}).tried().values()
    assert lost.value == "accepted, with strictAffinity False in the answer"
    (turned,) = trial(on, True, False).tried().values()
    assert turned.value != DONE


def test_a_refusal_is_the_servers_and_a_missing_right_is_none() -> None:
    refused = ApiRefused(422, "Invalid", "strictAffinity: Invalid value", "PATCH x")
    (fact,) = trial(refused).tried().values()
    assert fact.value == "refused: strictAffinity: Invalid value"
    with pytest.raises(MissingCapability, match="may not patch IPAMConfiguration"):
        trial(ApiRefused(403, "Forbidden", "no right", "PATCH x")).tried()


def test_nothing_is_tried_where_it_could_change_the_cluster() -> None:
    with pytest.raises(MissingCapability, match="trying the patch would turn it on"):
        trial(AssertionError("asked"), False).tried()


def plugin(text: str, cni: Fact[str]) -> tuple[str | None, str]:
    """What is read of a node's configuration, and what was wanted."""
    hosts: Any = SimpleNamespace(cni_configuration=lambda node: text)
    facts: Any = SimpleNamespace(cni=cni)
    node = a_node("w1", "windows")
    (fact,) = CniPlugins(hosts, facts, [node]).configured("w1").values()
    return fact.value, fact.wanted


CALICO = '{"plugins": [{"type": "calico"}]}'


def test_a_configuration_is_compared_with_the_plugin_that_the_api_names() -> None:
    assert plugin(CALICO, Fact("Calico", "Installation")) == (MEANT, "calico")
    other = '{"type": "win-bridge"}'
    assert plugin(other, Fact("Calico", "Installation")) == ("win-bridge", "calico")
    assert plugin(other, Fact("win-bridge", "annotation")) == (MEANT, "win-bridge")
    vpc = '{"type": "vpc-shared-eni"}'
    wanted = "vpc-bridge or vpc-shared-eni"
    assert plugin(vpc, Fact("AmazonVPC", "Installation")) == (MEANT, wanted)
    both = plugin(CALICO + other, Fact("Calico", "Installation"))[0]
    assert both == "no plugin, or several files with different plugins"


def test_a_configuration_is_not_compared_with_itself() -> None:
    own = Fact("Calico", "CNI configuration on node w1: type calico")
    assert plugin(CALICO, own)[0] is None
    assert plugin(CALICO, Fact(None, "nobody says it"))[0] is None
