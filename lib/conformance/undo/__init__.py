# SPDX-License-Identifier: Apache-2.0
"""Restores a cluster after disruptions and dead runs, and finds the objects that a run leaves.

``healers`` and ``dead_runs`` connect the journal with the disruptions that they undo;
``leftovers``, ``cleanup`` and ``recovery`` find and remove the objects of dead runs.
"""
