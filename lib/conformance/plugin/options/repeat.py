# SPDX-License-Identifier: Apache-2.0
"""The command that runs claims again."""

import shlex
from collections.abc import Sequence

import pytest

from conformance import product

WITH_VALUES = (
    "cluster",
    "kubeconfig",
    "context",
    "lab_profile",
    "lab_powershell",
    "calicoctl",
    "calico_version",
    "windows_calico_version",
    "external_target",
    "timings",
    "images",
    "namespaces_prefix",
    "pod_limits",
    "disruptive_node",
    "max_disrupted_nodes",
)
"""Options with a value that are repeated in the command to run claims again; flags follow below."""
FLAGS = (
    "allow_disruptive",
    "allow_cluster_disruptive",
    "allow_node_fill",
    "allow_load_balancer",
    "delete_emptydir_data",
    "capture_packets",
)


def repeat_command(config: pytest.Config, claims: list[str], nodes: Sequence[str] = ()) -> str:
    """Return the command that runs these claims again on the same cluster.

    ``nodes``: run only on these nodes of an operating system, in place of the chosen nodes.
    """
    option = config.option
    named = nodes or option.nodes
    chosen = () if nodes else ("max_nodes_per_os", "node_selector")
    values = {name: getattr(option, name) for name in (*WITH_VALUES, *chosen)}
    return " ".join(
        [
            product.command(),
            *(f"--claim {claim}" for claim in claims),
            *(written(name, shlex.quote(str(value))) for name, value in values.items() if value),
            *(f"--image-registry={shlex.quote(text)}" for text in option.image_registry),
            *(f"--image-pull-secret={name}" for name in option.image_pull_secret),
            *(f"--tolerate={shlex.quote(taint)}" for taint in option.tolerate),
            *([f"--nodes={','.join(named)}"] if named else []),
            *(["--every-node"] if option.every_node and not nodes else []),
            *(written(name) for name in FLAGS if getattr(option, name)),
        ]
    )


def written(name: str, value: str = "") -> str:
    """Return an option in command-line form: ``--max-minutes=5``."""
    return f"--{name.replace('_', '-')}{f'={value}' if value else ''}"
