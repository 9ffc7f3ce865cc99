"""Runs: from cases to recorded judgments, one or a million. Knows judging and the store; knows no HTTP, no terminal."""
