# SPDX-License-Identifier: Apache-2.0
"""How a path is decided: what is asked, how often, and when several answers agree."""
