# SPDX-License-Identifier: Apache-2.0
"""Measurements behind the figures in docs/performance.md. Nothing here is a test or asserts
anything."""
