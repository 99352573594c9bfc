# SPDX-License-Identifier: Apache-2.0
"""A run without pytest: choice of the cluster, its lab, the folder that its processes share, the
turns of exclusive tests, and the objects that tests receive."""
