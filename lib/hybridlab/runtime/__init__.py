# SPDX-License-Identifier: Apache-2.0
"""The container runtime: images, file systems, processes and applets inside labd. Of the lab's
other packages it imports only ``kernel`` and ``assumed``."""
