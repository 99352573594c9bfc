# SPDX-License-Identifier: Apache-2.0
"""Policies as the suites write them down: YAML twins of their tests, with placeholders for what a run decides."""
