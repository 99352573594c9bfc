# SPDX-License-Identifier: Apache-2.0
"""Runs inside the cluster: the Job, its results, and one report for several runs."""
