# SPDX-License-Identifier: Apache-2.0
"""Sources of pods' addresses: Calico's IPAM, with blocks that belong to nodes, and host-local."""
