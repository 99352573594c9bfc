# SPDX-License-Identifier: Apache-2.0
"""Every fault that a lab can have on any plane (network of pods); faults of a single plane are in
that plane's folder of ``networks``."""

from hybridlab.faults import (
    admission,
    api,
    cni_token,
    dns,
    exec,
    felix,
    hns,
    kubelet,
    paths,
    pods,
    reprogramming,
    rules,
    services,
)

_MODULES = (
    paths,
    rules,
    felix,
    reprogramming,
    dns,
    services,
    hns,
    exec,
    api,
    admission,
    kubelet,
    pods,
    cni_token,
)
"""The modules of faults, in the order in which their faults are listed."""
TYPES = tuple(kind for module in _MODULES for kind in module.TYPES)
"""Faults that can be injected on every plane."""
