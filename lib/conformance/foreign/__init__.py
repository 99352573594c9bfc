"""Policies that this run did not make: which are there, which came and went, and what they
excuse."""
