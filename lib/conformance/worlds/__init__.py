"""What is expected in a world of policies, cell by cell."""
