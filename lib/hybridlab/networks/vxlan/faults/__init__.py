# SPDX-License-Identifier: Apache-2.0
"""Faults of a VXLAN overlay."""

from hybridlab.networks.vxlan.faults import routes, underlay, vsid

TYPES = (*underlay.TYPES, *routes.TYPES, *vsid.TYPES)
