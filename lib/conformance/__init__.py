# SPDX-License-Identifier: Apache-2.0
"""The judge: everything the suites use to reach a verdict about a hybrid Calico cluster.

The judge reaches a cluster only by the Kubernetes API. It shares nothing with ``hybridlab``, the
embedded lab.
"""
