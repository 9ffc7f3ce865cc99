"""Cases of every kind of rubric that people label: the four of the library, a graded one and one of two questions."""

from typing import Any

from rubrics.declared import Declaration
from tests.browser.desk import claims, pairs
from tests.browser.site import Site, awaited

ANSWERED = [{"question": "Which colour?", "answer": "Teal, with a little grey."}]
GRADED = {
    "name": "helpful",
    "version": 1,
    "criteria": [
        {
            "name": "help",
            "text": "How helpful is the answer?",
            "levels": [{"value": value, "description": f"This is level {value}, in words."} for value in range(1, 6)],
        }
    ],
}
CUSTOM = {
    "name": "tone",
    "version": 1,
    "criteria": [
        {
            "name": "polite",
            "text": "Is it polite?",
            "labels": [{"name": "yes", "score": 1}, {"name": "no", "score": 0}],
        },
        {"name": "short", "text": "Is it short?", "labels": [{"name": "yes", "score": 1}, {"name": "no", "score": 0}]},
    ],
}
CITING = [
    {
        "question": "Where?",
        "contexts": ["In Rome.", "In Oslo.", "In Bern."],
        "answer": "It was in Rome [1]. Then it was in Oslo [1][2]. Nobody knows why.",
    }
]
CASES: dict[str, list[dict[str, Any]]] = {
    "pairwise@1": pairs(2),
    "faithfulness@1": claims(2),
    "citation_support@1": CITING,
    "refusal@1": [{"question": "How?", "contexts": [], "answer": "I cannot help with that."}],
    "helpful@1": ANSWERED,
    "tone@1": ANSWERED,
}


def declare(site: Site) -> None:
    """Add the rubrics of `CASES` that are not of the library."""

    async def add() -> None:
        for one in (GRADED, CUSTOM):
            await site.service.stored_rubrics.add(Declaration.model_validate(one))

    awaited(add())
