# SPDX-License-Identifier: Apache-2.0
"""Every rule between the observations of expectations and the verdict of a claim."""
