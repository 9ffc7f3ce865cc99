"""The keys of labelling: one table for the handler, the badges on buttons and the help. Knows no page."""

from typing import NamedTuple


class Key(NamedTuple):
    """One key. `key` is the browser's name of it in lower case, `badge` what people see, `single` one that types."""

    action: str
    key: str
    badge: str
    text: str
    single: bool = True


KEYS: tuple[Key, ...] = (
    Key("choose", "1-9", "1 to 9", "Choose an answer; again takes an optional one back"),
    Key("save", "enter", "Enter", "Save and go on", single=False),
    Key("before", "arrowup", "↑", "The question or item before", single=False),
    Key("after", "arrowdown", "↓", "The next question or item", single=False),
    Key("evidence", "e", "E", "Cite a context: then its number; or select text, or click a sentence"),
    Key("skip", "s", "S", "Skip the case, with a reason"),
    Key("undo", "u", "U", "Take the last save or skip back"),
    Key("note", "n", "N", "Write a note"),
    Key("flag", "f", "F", "Flag the case for the lead"),
    Key("guidelines", "g", "G", "Read the guidelines"),
    Key("keys", "?", "?", "Show these keys"),
    Key("leave", "escape", "Esc", "Leave a field or close what is open", single=False),
)
"""Every key. Digits are read by position too; auto-repeat and keys with a modifier do nothing."""

BADGES = {key.action: key.badge for key in KEYS}
"""What a button shows, by its action."""
