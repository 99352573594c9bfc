"""The standing watch, which asks paths from a run's beginning to its end."""
