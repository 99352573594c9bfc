# SPDX-License-Identifier: Apache-2.0
"""What a network of pods does, as the rest of the lab asks it; nothing here knows which networks there are."""
