# SPDX-License-Identifier: Apache-2.0
"""Who installed what: renders Calico's and Kubernetes' objects by the way of installing and by whose cluster it is."""
