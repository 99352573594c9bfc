# SPDX-License-Identifier: Apache-2.0
"""A fault of the token of Calico's CNI plugin on a Windows node: the token is no longer renewed."""

import time
from collections.abc import Mapping

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Entries, Fault, Parameter, Types, count

TYPES = Types()


@TYPES.fault(
    "cni-token-old",
    "pods",
    WINDOWS_OR_ALL,
    Parameter("hours", "the token's age in hours", "25"),
)
def cni_token_old(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The token of a Windows node's CNI plugin has the given age, although a token is valid for
    only 24 hours. Pods still start."""
    asked = time.time() - 3600 * count("hours", parameters["hours"])
    nodes = lab.nodes_of("windows", parameters["node"])
    tables = {
        f"the CNI token of {node} has expired": lab.calico.windows[node].old_tokens
        for node in nodes
    }
    return Entries(identity, asked, tables)
