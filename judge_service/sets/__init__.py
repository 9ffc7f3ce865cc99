"""Calibration sets from and to files: reading, grouping, splitting, freezing, comparing, recorded judges.

Owns what a file of cases, labels or verdicts may look like and the checks before a freeze. Knows no HTTP, no database
library and no statistics.
"""
