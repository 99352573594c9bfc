# SPDX-License-Identifier: Apache-2.0
"""The schedule of a run: the plan, its estimate, turns of exclusive tests, and the number of
workers."""
