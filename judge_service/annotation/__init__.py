"""Labelling by people: projects, fair distribution, forms of every rubric, quality, adjudication. Knows no HTTP."""
