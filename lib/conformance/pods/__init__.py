# SPDX-License-Identifier: Apache-2.0
"""The suite's own pods: which image on which node, deployed and read back as Workloads."""
