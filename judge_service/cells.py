"""Text cells of CSV as spreadsheets read them. Owns which text would begin a formula; knows no table and no file."""

import re

_FORMULA = re.compile(r"'*[\s\x00]*[=+\-@\t\r]")
_GUARDED = re.compile(r"''*[\s\x00]*[=+\-@\t\r]")


def guard(cell: str) -> str:
    """A text cell that no spreadsheet takes for a formula: one apostrophe more where it would begin one.

    Blanks before the sign, and apostrophes that stand there already, change nothing about it.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def unguard(cell: str) -> str:
    """The text before `guard`: exactly the added apostrophe is taken off."""
    return cell[1:] if _GUARDED.match(cell) else cell
