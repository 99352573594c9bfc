# SPDX-License-Identifier: Apache-2.0
"""What can go wrong on a VXLAN overlay alone."""

from hybridlab.networks.vxlan.faults import routes, underlay, vsid

TYPES = (*underlay.TYPES, *routes.TYPES, *vsid.TYPES)
