"""Classifiers for tests: what they answer stands in the text."""

import re


def stated(passage: str, claim: str) -> float:
    """The probability that the claim names in percent, such as `93 percent`."""
    found = re.search(r"(\d+) percent", claim)
    return int(found[1]) / 100 if found else 0.5
