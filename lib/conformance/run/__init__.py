# SPDX-License-Identifier: Apache-2.0
"""A run without pytest: which cluster, its lab, the directory that its processes share, the gate of
exclusive tests, what exceptions mean for claims, and what tests are handed."""
