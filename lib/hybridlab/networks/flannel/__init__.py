# SPDX-License-Identifier: Apache-2.0
"""flannel's VXLAN overlay, beside which Calico is for policy alone."""
