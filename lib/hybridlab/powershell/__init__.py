# SPDX-License-Identifier: Apache-2.0
"""A small PowerShell: parser, interpreter and the cmdlets that connectivity demonstrations use.

It runs scripts by interpreting them, never by recognising whole lines. An unknown construct ends
the script with ``not emulated: <construct>`` and exit status 1; nothing is skipped.
"""
