# SPDX-License-Identifier: Apache-2.0
"""The commands that run inside labd, by their names in the image table.

``registry`` collects them. PowerShell and the cluster's DNS server are passed in, because they live
in other packages.
"""
