# SPDX-License-Identifier: Apache-2.0
"""Scheduler, kubelets, workloads, services, namespaces: what a control plane and its nodes run, over the API."""
