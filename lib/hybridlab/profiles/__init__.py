"""Kinds of cluster, one YAML each: neutral facts only."""
