# SPDX-License-Identifier: Apache-2.0
"""Calico's and Kubernetes' objects by installation method and by the cluster's provider."""
