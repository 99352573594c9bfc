# SPDX-License-Identifier: Apache-2.0
"""Kinds of cluster, one YAML each: neutral facts only."""
