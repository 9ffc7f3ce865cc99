"""What is judged and how: case models, decoding schemas, records, prompts and label models.

Owns the rubric contracts. Knows Pydantic and Jinja2 only: no I/O beyond its own files, no model calls.
"""
