# SPDX-License-Identifier: Apache-2.0
"""Policies as the suites write them: YAML twins of their tests, with placeholders for values that a
run decides."""
