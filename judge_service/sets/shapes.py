"""What the rows of a file mean: our own export, plain rows of fields, and published collections as they are.

Owns the mapping of each known shape to cases and labels; docs/calibration-sets.md repeats it for readers. A label is a
mapping here (`annotator`, `label`, `rubric`, ...); `labelling` makes records of it.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibration.duplicates import normalise
from judge_service.domain.calibration_set import GIVEN_CLAIMS
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.runs.case_shape import case_fields
from rubrics.model import Rubric

GOLD = "gold"
"""Annotator of a single final label whose makers the file does not name."""
FINAL = "final"
"""Annotator of an adjudicated label beside those of single annotators."""

Fields = Mapping[str, Any]

_LABEL_FIELDS = (
    "annotator",
    "condition",
    "kind",
    "order_shown",
    "seconds",
    "note",
    "adjudicated",
    "detail",
    "created_at",
)
"""Columns of a plain row that say more about its one label."""
_OWN_NAMES = frozenset(
    {*_LABEL_FIELDS, "human_label", "label", "final_label", "annotators", "id", "group", "split", "metadata"}
)
_LABEL_NAMES = ("human_label", "label", "final_label")
SUPPORT = {"supported": "supported", "partially_supported": "unsupported", "not_supported": "unsupported"}
CITED = {"supported": "full", "partially_supported": "partial", "not_supported": "none"}
"""Words of collections with three classes of support, as labels of faithfulness and of citation support."""


@dataclass(slots=True)
class Shaped:
    """One case as a row gave it, before the rubric and the label model have looked at it."""

    id: Any
    input: dict[str, Any]
    group: Any = None
    split: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    labels: list[dict[str, Any]] = field(default_factory=list)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a shape may need besides the row. `answers` are those of a file beside the cases, by case id."""

    rubric: Rubric[Any] | None = None
    answers: Mapping[str, Sequence[Fields]] | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A known shape: recognised by the fields a row `has` and does not have (`lacks`).

    `rubric` is the one its cases fit, when the shape decides that. One row may hold several cases. `answers`: it needs
    a file of answers beside the cases.
    """

    name: str
    summary: str
    convert: Callable[[Fields, Context], list[Shaped]]
    has: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    rubric: str | None = None
    answers: bool = False


def _scalars(fields: Fields, used: Collection[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What is left of a row: scalars as metadata, the names of the rest."""
    left = {name: value for name, value in fields.items() if name not in used}
    kept = {name: value for name, value in left.items() if value is None or isinstance(value, str | int | float | bool)}
    return kept, tuple(name for name in left if name not in kept)


def _votes(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, Mapping):
        return [{"annotator": str(name), "label": label} for name, label in value.items()]
    if isinstance(value, list):
        return [{"annotator": f"annotator-{place}", "label": label} for place, label in enumerate(value, start=1)]
    raise InvalidInput(
        fields=[FieldProblem("annotators", "must be a list of labels, or an object of labels by annotator")]
    )


def _same_text(*texts: str) -> str:
    """A group for cases that show the same text: the unit of independence of collections that name none."""
    digest = hashlib.sha256("\x1f".join(map(normalise, texts)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"text-{digest[:16]}"


def _native(fields: Fields, _context: Context) -> list[Shaped]:
    nested: dict[str, dict[str, Any]] = {"input": {}, "metadata": {}}
    for name in nested:
        value = fields.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput(fields=[FieldProblem(name, "must be an object")])
        nested[name].update(value or {})
    for name, value in fields.items():
        part, dot, rest = name.partition(".")
        if dot and part in nested:
            nested[part][rest] = value
    known = ("id", "group", "split", "labels", "input", "metadata")
    unknown = [name for name in fields if name not in known and name.partition(".")[0] not in nested]
    if unknown:
        raise InvalidInput(fields=[FieldProblem(name, "is no field of an exported case") for name in unknown])
    labels = fields.get("labels") or []
    if not isinstance(labels, list) or not all(isinstance(label, Mapping) for label in labels):
        raise InvalidInput(fields=[FieldProblem("labels", "must be a list of objects")])
    made = [dict(label) for label in labels]
    return [
        Shaped(fields.get("id"), nested["input"], fields.get("group"), fields.get("split"), nested["metadata"], made)
    ]


def _plain(fields: Fields, context: Context) -> list[Shaped]:
    if context.rubric is None:
        message = "is needed: it says which columns are the case. Name it here or when the set is made"
        raise InvalidInput(f"The rubric {message}.", fields=[FieldProblem("rubric", message)])
    names = case_fields(context.rubric)
    given = {name: value for name, value in fields.items() if name in names}
    labels: list[dict[str, Any]] = []
    single = next((name for name in _LABEL_NAMES if name in fields and name not in names), None)
    several = fields.get("annotators") not in (None, "") and "annotators" not in names
    if several:
        labels.extend(_votes(fields["annotators"]))
    if single is not None:
        label = {name: fields[name] for name in _LABEL_FIELDS if fields.get(name) not in (None, "")}
        if several:
            label = {"annotator": FINAL, "adjudicated": True} | label
        if fields[single] not in (None, "") or not several:
            labels.append(label | {"label": fields[single]})
    listed = fields.get("labels")
    if "labels" not in names and isinstance(listed, list | Mapping):
        whole = isinstance(listed, list) and all(isinstance(one, Mapping) for one in listed)
        labels.extend([dict(one) for one in listed] if whole else _votes(listed))
        names = names | {"labels"}
    # A second column of labels is none of the row's labels: it stays with the case.
    used = (names | _OWN_NAMES) - {name for name in _LABEL_NAMES if name != single}
    metadata, dropped = _scalars(fields, used)
    own = fields.get("metadata")
    if own not in (None, "") and not isinstance(own, Mapping):
        raise InvalidInput(fields=[FieldProblem("metadata", "must be an object")])
    group = fields.get("group")
    split = fields.get("split")
    return [
        Shaped(
            fields.get("id"),
            given,
            None if group == "" else group,
            None if split == "" else split,
            {**metadata, **(own or {})},
            labels,
            dropped,
        )
    ]


def _pairs(fields: Fields, _context: Context) -> list[Shaped]:
    metadata, dropped = _scalars(fields, ("id", "prompt", "response_a", "response_b", "human_label", "annotators"))
    labels: list[dict[str, Any]] = [{"annotator": GOLD, "label": fields["human_label"]}]
    if "annotators" in fields:
        labels = [
            *_votes(fields["annotators"]),
            {"annotator": FINAL, "label": fields["human_label"], "adjudicated": True},
        ]
    # Six answers of the collection lost their quotes on the way and stand there as JSON booleans.
    given = {name: _spelled(fields[name]) for name in ("prompt", "response_a", "response_b")}
    return [Shaped(fields["id"], given, _same_text(str(given["prompt"])), None, metadata, labels, dropped)]


def _wice(fields: Fields, _context: Context) -> list[Shaped]:
    metadata, dropped = _scalars(fields, ("id", "question", "statement", "citations", "human_label", "preceding_text"))
    contexts = ["\n".join(citation["sentences"]) for citation in fields["citations"]]
    given = {"question": fields.get("question"), "contexts": contexts, "answer": fields["statement"]}
    label = fields["human_label"]
    labels = [
        {"annotator": GOLD, "label": _of(SUPPORT, label), "rubric": "faithfulness@1", "note": label},
        {"annotator": GOLD, "label": _of(CITED, label), "rubric": "citation_support@1"},
    ]
    group = f"article {fields['article_title']}" if fields.get("article_title") else None
    return [Shaped(fields["id"], given, group, None, metadata, labels, (*dropped, "preceding_text"))]


def _wice_spans(fields: Fields, _context: Context) -> list[Shaped]:
    used = ("id", "question", "contexts", "answer", "human_label", "unsupported_spans")
    metadata, dropped = _scalars(fields, used)
    given = {name: fields.get(name) for name in ("question", "contexts", "answer")}
    label = fields["human_label"]
    support = _of(SUPPORT, label)
    detail: dict[str, Any] = {"label": support}
    if support == "unsupported":
        spans = fields["unsupported_spans"]
        detail["unsupported_spans"] = [{"start": span["start"], "end": span["end"]} for span in spans]
    # The number behind the last hyphen counts the parts of one statement.
    group = _text(fields, "id").rpartition("-")[0] or None
    made = {"annotator": GOLD, "label": support, "detail": detail, "note": label}
    return [Shaped(fields["id"], given, group, None, metadata, [made], dropped)]


def _expertqa(fields: Fields, _context: Context) -> list[Shaped]:
    used = ("id", "question", "contexts", "answer", "claims", "human_label", "annotators")
    metadata, dropped = _scalars(fields, used)
    given = {name: fields[name] for name in ("question", "contexts", "answer")}
    label = _of({"faithful": "supported", "not_fully_supported": "unsupported"}, fields["human_label"])
    made = {"annotator": _expert(fields), "label": label, "note": fields["human_label"]}
    group = _same_text(_text(fields, "question"))
    claims = [claim["text"] for claim in fields["claims"] if isinstance(claim.get("text"), str)]
    if claims:
        metadata[GIVEN_CLAIMS] = json.dumps(claims, ensure_ascii=False)
    return [Shaped(fields["id"], given, group, None, metadata, [made], dropped)]


def _expertqa_claims(fields: Fields, _context: Context) -> list[Shaped]:
    shaped = []
    group = _same_text(_text(fields, "question"))
    for place, claim in enumerate(fields["claims"]):
        passages = [citation["passage"] for citation in claim["citations"] if citation.get("passage")]
        label = claim["human_label"]
        # Without a passage the expert judged a page that is not in the file, or nothing at all.
        seen = label if passages else None
        metadata = {
            "group": fields.get("group"),
            "field": fields.get("field"),
            "answer_id": fields["id"],
            "support_as_marked": claim.get("support_as_marked"),
            "human_label": label,
            "n_passages": len(passages),
        }
        support = {"note": label} if label else {}
        labels = [
            {"annotator": _expert(fields), "rubric": "faithfulness@1", "label": _of(SUPPORT, seen), **support},
            {"annotator": _expert(fields), "rubric": "citation_support@1", "label": _of(CITED, seen), **support},
        ]
        given = {"question": fields["question"], "contexts": list(dict.fromkeys(passages)), "answer": claim["text"]}
        shaped.append(Shaped(f"{fields['id']}-claim-{place}", given, group, None, metadata, labels))
    return shaped


def _expert(fields: Fields) -> str:
    names = fields.get("annotators")
    return str(names[0]) if isinstance(names, list) and names else GOLD


def _nomiracl(fields: Fields, context: Context) -> list[Shaped]:
    metadata, dropped = _scalars(fields, ("id", "question", "contexts", "context_ids", "answerable"))
    ids = fields.get("context_ids") or [None] * len(fields["contexts"])
    contexts = [
        {"text": text} if name is None else {"id": name, "text": text}
        for name, text in zip(ids, fields["contexts"], strict=True)
    ]
    group = _same_text(_text(fields, "question"))
    shaped = []
    for answer in (context.answers or {}).get(_text(fields, "id"), ()):
        given = {
            "question": fields["question"],
            "contexts": contexts,
            "answer": answer["answer"],
            "answerable": fields["answerable"],
        }
        # People marked passages, nobody read the answers: what the collection's rule read is a model's label.
        read = {True: "refusal", False: "compliance", None: None}[answer.get("refused")]
        labels = [{"annotator": "source-rule", "kind": "model", "label": read}]
        name = f"{fields['id']}--{answer['model']}"
        shaped.append(Shaped(name, given, group, None, metadata | {"answer_model": answer["model"]}, labels, dropped))
    return shaped


def _xstest(fields: Fields, _context: Context) -> list[Shaped]:
    used = ("id", "question", "contexts", "answer", "answerable", "human_label", "annotators", "refused")
    metadata, dropped = _scalars(fields, used)
    given = {name: fields[name] for name in ("question", "contexts", "answer", "answerable")}
    final = {"annotator": FINAL, "label": fields["human_label"], "adjudicated": True}
    labels = [*_votes(fields["annotators"]), final]
    return [Shaped(fields["id"], given, _same_text(_text(fields, "question")), None, metadata, labels, dropped)]


def _spelled(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _text(fields: Fields, name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise InvalidInput(fields=[FieldProblem(name, "must be a text")])
    return value


def _of(names: Mapping[str, str], label: Any) -> str | None:
    if label is None or label == "no_citation":
        return None
    if label not in names:
        raise InvalidInput(fields=[FieldProblem("human_label", f"{label!r} is none of {', '.join(names)}")])
    return names[label]


SHAPES: tuple[Shape, ...] = (
    Shape(
        "set",
        "Our own export: `input`, `metadata` and `labels` as objects, or as columns `input.NAME`, `metadata.NAME`.",
        _native,
        frozenset({"input"}),
    ),
    Shape(
        "xstest",
        "Refusals: two annotators and a final label; `group`, `category` and `answer_model` become metadata.",
        _xstest,
        frozenset({"question", "answer", "answer_model", "answerable", "refused", "human_label", "annotators"}),
        rubric="refusal@1",
    ),
    Shape(
        "pandalm",
        "Pairs with a label of each annotator and their majority; `group` and `source_subset` become metadata, "
        "an answer that is a JSON number or boolean its text.",
        _pairs,
        frozenset({"prompt", "response_a", "response_b", "human_label", "annotators", "source_subset"}),
        rubric="pairwise@1",
    ),
    Shape(
        "llmbar",
        "Pairs with one label; `group` and `source_subset` become metadata.",
        _pairs,
        frozenset({"prompt", "response_a", "response_b", "human_label", "source_subset"}),
        frozenset({"annotators"}),
        "pairwise@1",
    ),
    Shape(
        "wice",
        "Statements with cited excerpts; labelled under faithfulness@1 (two classes) and citation_support@1 (three).",
        _wice,
        frozenset({"statement", "citations", "human_label"}),
        rubric="faithfulness@1",
    ),
    Shape(
        "wice_spans",
        "Statements with the spans that their contexts do not support.",
        _wice_spans,
        frozenset({"contexts", "answer", "human_label", "unsupported_spans"}),
        rubric="faithfulness@1",
    ),
    Shape(
        "expertqa",
        "Answers with one expert's label; their claims are kept to be proposed to people.",
        _expertqa,
        frozenset({"question", "contexts", "answer", "claims", "human_label"}),
        rubric="faithfulness@1",
    ),
    Shape(
        "expertqa_claims",
        "The claims of such answers, each a case of its own with the passages it cites. Never chosen by itself.",
        _expertqa_claims,
        rubric="faithfulness@1",
    ),
    Shape(
        "nomiracl",
        "Questions with ten passages; a file of models' answers makes one case of each answer.",
        _nomiracl,
        frozenset({"question", "contexts", "context_ids", "answerable"}),
        frozenset({"answer"}),
        "refusal@1",
        answers=True,
    ),
    Shape(
        "plain",
        "The rubric's own fields as columns, with `id`, `group`, `split`, `human_label`, `annotators` where there are.",
        _plain,
    ),
)
_BY_NAME = {shape.name: shape for shape in SHAPES}
_PLAIN = _BY_NAME["plain"]


def shape_named(name: str) -> Shape:
    """A shape by name. Raises InvalidInput that lists them."""
    if name not in _BY_NAME:
        message = f"must be one of: {', '.join(_BY_NAME)}"
        raise InvalidInput(f"There is no format {name!r}; it {message}.", fields=[FieldProblem("format", message)])
    return _BY_NAME[name]


def recognise(fields: Fields) -> Shape:
    """The shape of a row with these fields: the first known one, else `plain`."""
    names = {name.partition(".")[0] for name in fields} | set(fields)
    for shape in SHAPES:
        if shape.has and shape.has <= names and not shape.lacks & names:
            return shape
    return _PLAIN


def require_answers(shape: Shape, given: bool) -> None:
    """Raise InvalidInput when the shape needs a file of answers and none is `given`."""
    if shape.answers and not given:
        message = f"is needed for the format {shape.name}: the file with what each model answered"
        raise InvalidInput(f"`answers` {message}. Nothing was imported.", fields=[FieldProblem("answers", message)])


def convert(shape: Shape, fields: Fields, context: Context) -> list[Shaped]:
    """The cases of one row. Raises InvalidInput naming the field that is missing or of another type."""
    require_answers(shape, context.answers is not None)
    missing = sorted(name for name in shape.has if name not in fields and shape.name != "set")
    if missing:
        raise InvalidInput(fields=[FieldProblem(name, f"is missing (format {shape.name})") for name in missing])
    try:
        return shape.convert(fields, context)
    except KeyError as error:
        raise InvalidInput(fields=[FieldProblem(str(error.args[0]), f"is missing (format {shape.name})")]) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(fields=[FieldProblem("", f"does not fit the format {shape.name}: {error}")]) from None
