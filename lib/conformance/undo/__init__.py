# SPDX-License-Identifier: Apache-2.0
"""What heals a cluster: of disruptions, of what dead runs left, and of what a run leaves behind.

``healers`` and ``dead_runs`` put the journal together with the disruptions that they undo; ``leftovers``, ``cleanup``
and ``recovery`` find what dead runs left and clear it.
"""
