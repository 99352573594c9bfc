# SPDX-License-Identifier: Apache-2.0
"""Kinds of cluster, one YAML file each: facts only, without results that tests expect."""
