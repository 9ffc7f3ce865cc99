"""pairwise@1: which of two answers is better."""
