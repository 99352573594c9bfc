"""Nodes, pods, routes, kube-proxy rules, policy enforcement and DNS, as namespaces and rule sets.

Imports only kernel."""
