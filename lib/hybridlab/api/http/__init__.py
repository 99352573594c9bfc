# SPDX-License-Identifier: Apache-2.0
"""The API over HTTPS: paths, encodings, discovery, tables, watches, exec and logs. Rules are not
here."""
