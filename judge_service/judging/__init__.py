"""One case becomes one judgment: asking, strict reading, folding, confidence and trust.

Knows rubrics and backends; never the store, never HTTP.
"""
