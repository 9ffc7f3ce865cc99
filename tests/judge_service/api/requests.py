"""Requests that the tests of the API share."""

from typing import Any


def pair(case_id: str = "p1", **changes: Any) -> dict[str, Any]:
    case = {
        "id": case_id,
        "prompt": "How do I descale a kettle?",
        "response_a": "Boil it with vinegar and water, wait, rinse twice.",
        "response_b": "Use vinegar.",
    }
    return {"rubric": "pairwise@1", "judge": "longer", "case": case | changes}


def claims(case_id: str = "f1", **changes: Any) -> dict[str, Any]:
    case = {
        "id": case_id,
        "question": "When does the library open?",
        "contexts": ["On Saturdays the library opens at 10:00."],
        "answer": "The library opens at 10:00 on Saturdays.",
    }
    return {"rubric": "faithfulness@1", "judge": "overlap", "case": case | changes}


def paths(response: Any) -> list[str]:
    return [error["path"] for error in response.json()["errors"]]
