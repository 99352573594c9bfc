# SPDX-License-Identifier: Apache-2.0
"""flannel's VXLAN overlay; Calico only enforces policy."""
