# SPDX-License-Identifier: Apache-2.0
"""The judge: everything the suites use to reach a verdict about a hybrid Calico cluster.

It talks to a cluster only over the Kubernetes API and shares nothing with ``hybridlab``, the embedded lab.
"""
