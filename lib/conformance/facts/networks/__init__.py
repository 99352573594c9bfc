# SPDX-License-Identifier: Apache-2.0
"""What carries packets between nodes, as nodes have it: routes, VXLAN entries, BGP, HNS."""
