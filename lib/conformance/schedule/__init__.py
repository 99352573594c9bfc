# SPDX-License-Identifier: Apache-2.0
"""What runs when: the plan, its estimate, turns of exclusive tests, and how many workers a cluster
bears."""
