"""What a failed expectation says: the first line, what was seen, why, and what to do."""
