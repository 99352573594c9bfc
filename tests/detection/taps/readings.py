# SPDX-License-Identifier: Apache-2.0
"""Faults of objects that claims read: the CNI configuration of a Windows host, and the server's
answer to a patch of IPAMConfiguration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridlab.api.contract import ApiError, Obj
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Entries, Fault, Parameter, Types

TYPES = Types()


@TYPES.fault("cni-file", "ipam", WINDOWS_OR_ALL, Parameter("plugin", "the type that it names"))
def cni_file(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The CNI configuration of a Windows host names another plugin, although the host's runtime
    uses the right one."""
    nodes = lab.nodes_of("windows", parameters["node"])
    plugin = parameters["plugin"]

    def answer(found: Any, node: str, question: str) -> Any:
        if question != "files" or node not in nodes:
            return found
        return {
            path: text.replace('"type": "calico"', f'"type": "{plugin}"')
            for path, text in found.items()
        }

    return Entries(
        identity, answer, {f"CNI files of {', '.join(nodes)}: {plugin}": lab.host_answers.taps}
    )


@TYPES.fault(
    "documented-patch", "ipam", Parameter("does", "what becomes of it", choices=("refused", "lost"))
)
def documented_patch(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A patch of IPAMConfiguration is refused, or its value is lost."""

    def admit(obj: Obj, plural: str, old: Obj | None) -> Obj:
        if plural == "ipamconfigurations" and old is not None:
            if parameters["does"] == "refused":
                raise ApiError(422, "Invalid", "strictAffinity: Invalid value")
            obj["spec"]["strictAffinity"] = False
        return obj

    text = f"a patch of IPAMConfiguration is {parameters['does']}"
    return Entries(identity, admit, {text: lab.interference.admission.taps})
