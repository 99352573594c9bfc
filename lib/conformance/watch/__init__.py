# SPDX-License-Identifier: Apache-2.0
"""The standing watch, which probes paths from a run's beginning to its end."""
