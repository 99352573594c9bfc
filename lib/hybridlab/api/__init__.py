# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes API server: store, watch, resources, CRDs, authentication, authorization, exec.

It imports no other package of the lab.
"""
