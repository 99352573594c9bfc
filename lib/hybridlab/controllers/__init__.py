# SPDX-License-Identifier: Apache-2.0
"""Scheduler, kubelets, workloads, services, namespaces: the programs of a control plane and its
nodes, which use the API."""
