"""Classifiers for tests: what they answer stands in the text."""

import os
import re
from pathlib import Path


def stated(passage: str, claim: str) -> float:
    """The probability that the claim names in percent, such as `93 percent`."""
    found = re.search(r"(\d+) percent", claim)
    return int(found[1]) / 100 if found else 0.5


def told(passage: str, claim: str) -> float:
    """The probability that the file named by TOLD_FILE holds: a model that its provider may change."""
    return float(Path(os.environ["TOLD_FILE"]).read_text())
