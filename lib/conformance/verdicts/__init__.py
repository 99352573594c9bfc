# SPDX-License-Identifier: Apache-2.0
"""Every rule between what expectations saw and what is said of a claim."""
