"""Reports: rows from files and the store become arrays, statistics and pages.

Owns the bridge to `calibration` and everything that is rendered. Knows no backend and makes no call.
"""
