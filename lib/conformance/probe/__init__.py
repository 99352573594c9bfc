"""Asking pods to make network attempts: observations, or an exception when the asking broke."""
