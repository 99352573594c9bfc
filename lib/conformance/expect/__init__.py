"""What a test expects of traffic, and what it says when that is not so."""
