"""Things deliberately wrong: each with its scope, injection, healing and verification."""
