# SPDX-License-Identifier: Apache-2.0
"""Expectations in a world (a set of policies), for each pair of pods."""
