# SPDX-License-Identifier: Apache-2.0
"""What is particular to a kind: defaults, admission, checks of values, what may not change."""
