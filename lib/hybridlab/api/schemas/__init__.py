"""What fields an object may have: compact data, and the one place that reads it."""
