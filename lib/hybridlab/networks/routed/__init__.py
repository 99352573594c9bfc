# SPDX-License-Identifier: Apache-2.0
"""Networks that carry pods' packets unchanged, by routes that no part of Calico sets."""
