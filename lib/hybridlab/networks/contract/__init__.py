# SPDX-License-Identifier: Apache-2.0
"""The network of pods, as the rest of the lab uses it; nothing here depends on which networks
exist."""
