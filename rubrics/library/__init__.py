"""Released rubric versions, one folder each. A released folder never changes: a change is a new version."""
