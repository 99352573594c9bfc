# SPDX-License-Identifier: Apache-2.0
"""The state of the network that carries packets between nodes, as nodes report it: routes, VXLAN
entries, BGP, HNS."""
