# SPDX-License-Identifier: Apache-2.0
"""Nodes, pods, routes, kube-proxy rules, policy enforcement and DNS, as namespaces and rule sets.

This package imports only ``hybridlab.kernel``.
"""
