"""LLM judges whose verdicts carry their measured agreement with humans.

This package owns everything that touches the world: models, database, HTTP and the command line.
What is judged lives in `rubrics`, the arithmetic in `calibration`; neither knows this package.
"""

__version__ = "0.1.0"
