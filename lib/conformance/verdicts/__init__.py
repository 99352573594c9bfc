"""Every rule between what expectations saw and what is said of a claim."""
