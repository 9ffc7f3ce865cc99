"""Frozen records of the service's own words: case, call, judgment, judge, run, principal.

Owns the shapes that all other rooms exchange. Knows no database, no HTTP, no model.
"""
