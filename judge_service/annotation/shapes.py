"""The shape of a form and of an answer to it: plain JSON, the same for every rubric: one page serves all.

A `Form` is what is asked about one case; an `Answer` is what a person said, with gaps a draft. Knows no rubric.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_ITEMS = 500
ITEM_LENGTH = 4000

Role = Literal["question", "answer", "context", "reference", "other"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Choice(_Part):
    """One answer to a question. `key` is the digit that chooses it, null beyond nine."""

    value: str
    text: str
    description: str = ""
    key: str | None = None


class When(_Part):
    """A question is asked when another one has one of `values`; `item` says that this is one of any item."""

    question: str
    values: tuple[str, ...]
    item: bool = False


class Question(_Part):
    """One thing to decide. `required`: a save without it is refused. `evidence`: passages may be quoted for it.

    `per_passage`: it is asked of every passage of the item, and answered in `ItemAnswer.passages`.
    """

    id: str
    text: str
    choices: tuple[Choice, ...]
    required: bool = True
    evidence: bool = False
    per_passage: bool = False
    when: When | None = None


class Text(_Part):
    """A text to read. Ids: the name of the case's field, `ctx1`, `ctx2` ... for contexts, `first` and `second`."""

    id: str
    role: Role
    title: str
    text: str


class Source(_Part):
    """Where an item stands: `[start:end]` of the text `text`, in code points."""

    text: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)


class Item(_Part):
    """A claim or a statement. `asks` are the item questions asked of it, `required` those that need an answer.

    `passages` are ids of the texts it is held against; empty: all contexts.
    """

    id: str
    title: str
    text: str
    source: Source | None = None
    passages: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class Form(_Part):
    """What is asked about one case.

    `texts` in reading order; `questions` about the whole case; `item_questions` about each item. `items_editable`:
    items may be added, edited and merged. `one_question`: a single choice answers the case ("save as I choose" may be
    used). For a pair the texts are `first` and `second` and so are the values; the server restores A and B.
    """

    rubric: str
    kind: Literal["single", "pairwise"]
    title: str
    question: str
    rules: tuple[str, ...] = ()
    texts: tuple[Text, ...]
    questions: tuple[Question, ...] = ()
    items: tuple[Item, ...] = ()
    item_questions: tuple[Question, ...] = ()
    item_noun: str = "item"
    items_editable: bool = False
    one_question: bool = False


class Evidence(_Part):
    """A quoted place: `quote` is `[start:end]` of the text `text`."""

    text: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    quote: str = Field(min_length=1, max_length=ITEM_LENGTH)


class ItemAnswer(_Part):
    """One item as answered. `from_ids` are the proposed items that an edited or merged one came from.

    `answers`: question id to value. `passages`: for questions per passage, question id to passage id to value.
    """

    id: str = Field(min_length=1, max_length=64)
    text: str = Field(min_length=1, max_length=ITEM_LENGTH)
    origin: Literal["proposed", "added", "edited", "merged"] = "proposed"
    from_ids: tuple[str, ...] = ()
    answers: dict[str, str] = Field(default_factory=dict)
    passages: dict[str, dict[str, str]] = Field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()


class Answer(_Part):
    """What a person said: question id to value, and every item with its own answers. Drafts have gaps."""

    answers: dict[str, str] = Field(default_factory=dict)
    items: tuple[ItemAnswer, ...] = Field(default=(), max_length=MOST_ITEMS)


class Draft(Answer):
    """An answer that is kept and not saved, with the note that is being written."""

    note: str | None = Field(default=None, max_length=ITEM_LENGTH)
