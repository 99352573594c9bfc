# SPDX-License-Identifier: Apache-2.0
"""A run without pytest: choice of the cluster, its lab, the directory that its processes share,
the gate of exclusive tests, and the objects that tests receive.
"""
