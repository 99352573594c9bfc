# SPDX-License-Identifier: Apache-2.0
"""The facts about a cluster: detection with sources, preflight, rights, readings of objects and
nodes, and diagnostics after a failure."""
