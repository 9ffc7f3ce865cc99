"""Section: whose labels these are, how far people agree, and how many more are needed. Owns the words of the tiers."""

from collections import Counter
from typing import Any

from calibration import raters
from calibration.annotator_test import MIN_ANNOTATORS, MIN_CASES, alternative_annotator_test
from calibration.estimate import Reason
from calibration.power import labels_for_half_width, tier
from calibration.resample import Resampler
from judge_service.reports.drawn import drawn_cases
from judge_service.reports.figures import shown
from judge_service.reports.study import Study

ID = "labels"
TITLE = "The labels"

MOST_ANNOTATORS = 12
"""People compared in pairs and in the test: those with the most labels."""
HALF_WIDTH = 0.05


def build(study: Study) -> dict[str, Any]:
    """Who labelled, under which condition, how far they agree, and what more labels would buy.

    Shape: `{n, cases, unlabelled, tier, how, aside, drawn, annotators: [{annotator, labels}], people, pairs,
    needed: [row], annotator_test}`. `drawn`: as `drawn_cases` says. `how`: cases by how their label came about
    (null for cases that are in no set); `aside`: labels with no part in it (`assisted`, `by_model`, `skipped`);
    `people`: figures `s1`, `s2` (two people, all pairs of labels; decided ones), `alpha`, `ac1`, `fleiss`, and
    `cases_with_two`, `unanimous`; `pairs`: `{annotators, n, agreement, kappa}`. `needed` per judge: `{judge,
    agreement, half_width, for_half_width, labels, more}`: labels for an interval of plus or minus five points, and
    how many more that is. `annotator_test`: `{measured, reason, text,
    epsilon, judges: [{judge, advantage, share_rejected, passed, flags}]}`: may the judge stand in for one of these
    people (Calderon et al. 2025)?
    """
    items = study.labelled.items
    counts = Counter(annotator for item in items for annotator in item.votes)
    names = [name for name, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))]
    given = None if study.labelled_set is None else dict(study.labelled_set.labels)
    aside = ("labels", "assisted", "by_model", "skipped", "other_rubric", "not_of_the_rubric")
    compared = sorted(names[:MOST_ANNOTATORS])
    rows = [[item.votes.get(name) for item in items] for name in compared]
    return {
        "n": study.n,
        "cases": len(study.dataset.items),
        "unlabelled": len(study.dataset.items) - study.n,
        "tier": tier(study.labelled.effective_n),
        "how": None if given is None else {name: count for name, count in given.items() if name not in aside},
        "aside": None if given is None else {name: given[name] for name in aside if name in given},
        "drawn": drawn_cases(items, unreachable=0 if study.labelled_set is None else study.labelled_set.unreachable),
        "annotators": [{"annotator": name, "labels": counts[name]} for name in names],
        "people": _people(study, names),
        "pairs": [
            {
                "annotators": [compared[i], compared[j]],
                "n": pair["raw_agreement"].n,
                "agreement": shown(pair["raw_agreement"]),
                "kappa": shown(pair["cohen_kappa"]),
            }
            for (i, j), pair in raters.pairwise(rows, study.classes).items()
        ],
        "needed": _needed(study),
        "annotator_test": _annotator_test(study, compared, rows),
    }


def _people(study: Study, names: list[str]) -> dict[str, Any]:
    doubled = [cast for cast in study.votes if len(cast) >= 2]
    found: dict[str, Any] = {
        "cases_with_two": len(doubled),
        "unanimous": sum(len(set(cast)) == 1 for cast in doubled),
        "s1": shown(study.ceiling["s1"]),
        "s2": shown(study.ceiling["s2"]) if study.pairs else None,
        "alpha": None,
        "ac1": None,
        "fleiss": None,
    }
    if not names:
        return found
    rows = [[item.votes.get(name) for item in study.labelled.items] for name in sorted(names)]
    metric = "ordinal" if study.dataset.rubric.scale.ordered else "nominal"
    draws: Resampler = study.draws([tuple(cast) for cast in study.votes], list(zip(*rows, strict=True)))
    table = [[cast.count(label) for label in study.classes] for cast in study.votes if cast]
    return {
        **found,
        "alpha": shown(raters.alpha(rows, metric, classes=study.classes, resampler=draws)),
        "ac1": shown(raters.ac1(rows, classes=study.classes, resampler=draws)),
        "fleiss": shown(raters.fleiss_kappa(table, resampler=draws if len(table) == study.n else None)),
    }


def _needed(study: Study) -> list[dict[str, Any]]:
    rows = []
    for column, figures in zip(study.labelled.columns, study.figures, strict=True):
        raw = figures.agreement["raw_agreement"]
        needed = None if raw.value is None else labels_for_half_width(raw.value, HALF_WIDTH).value
        wide = None if raw.low is None or raw.high is None else (raw.high - raw.low) / 2
        rows.append(
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "agreement": raw.value,
                "half_width": wide,
                "for_half_width": HALF_WIDTH,
                "labels": None if needed is None else int(needed),
                "more": None if needed is None else max(0, int(needed) - study.n),
            }
        )
    return rows


def _annotator_test(study: Study, names: list[str], rows: list[list[str | None]]) -> dict[str, Any]:
    shared = sum(len(cast) >= MIN_ANNOTATORS for cast in study.votes)
    head: dict[str, Any] = {"epsilon": study.choices.epsilon, "judges": []}
    if len(names) < MIN_ANNOTATORS or shared < MIN_CASES:
        text = (
            f"Not measured: the test needs {MIN_ANNOTATORS} people on {MIN_CASES} cases; "
            f"{shared} cases have labels of {MIN_ANNOTATORS} people."
        )
        return {"measured": False, "reason": Reason.TOO_FEW_LABELS.value, "text": text, **head}
    groups = study.labelled.groups
    for column in study.labelled.columns:
        test = alternative_annotator_test(
            rows,
            study.labelled.predicted(column),
            epsilon=study.choices.epsilon,
            groups=groups if len(set(groups)) < len(groups) else None,
        )
        head["judges"].append(
            {
                "judge": column.judge.name,
                "baseline": column.baseline,
                "advantage": shown(test.rho),
                "share_rejected": shown(test.omega),
                "passed": test.passed,
                "flags": list(test.flags),
            }
        )
    return {"measured": True, "reason": None, "text": None, **head}
