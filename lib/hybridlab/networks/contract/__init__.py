# SPDX-License-Identifier: Apache-2.0
"""The network of pods as the rest of the lab asks it; nothing here knows which networks there
are."""
