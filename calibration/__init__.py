"""Arithmetic of judges against humans: arrays in, frozen results out.

Knows no database, no HTTP, no event loop, and nothing of the service; usable on its own in a notebook.
"""

from calibration.estimate import Estimate, InvalidStatisticInput, Reason

__all__ = ["Estimate", "InvalidStatisticInput", "Reason"]
