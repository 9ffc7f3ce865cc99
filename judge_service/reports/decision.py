"""The verdict of a report, said first. Owns its four patterns in words and when no choice may be made.

The rules of the choice are `choosing`'s and `calibration.selection`'s; here they become one sentence that equals the
decision in the JSON, and at most four reasons.
"""

from typing import Any

from calibration.estimate import Estimate
from calibration.power import labels_for_difference
from calibration.resample import MIN_GROUPS
from calibration.selection import MIN_OF_CLASS, Floors, PairedComparison, Selection
from judge_service.domain.calibration_set import Split
from judge_service.domain.judge import OrderPolicy
from judge_service.reports.choosing import DESCRIBING, ThresholdChoice
from judge_service.reports.drawn import drawn_cases
from judge_service.reports.floors import fallen
from judge_service.reports.study import Study
from judge_service.reports.thresholds import SELECTING

FLOOR = DESCRIBING
"""Labels below which nothing is recommended."""
SELECTION = SELECTING
"""Labels below which judges may be described but not selected."""

MARKS = {"select": "✓", "any_of": "≈", "none": "✕", "not_enough_evidence": "◌"}
"""The mark of each pattern."""

HOLDS = "Holds until the rubric, the judge, its model version or the set changes, and for 90 days at most."

ON_DEVELOPMENT = (
    "These labels are of the development split, on which prompts may have been chosen: confirm it on calibration or "
    "release."
)

ASKING = {
    OrderPolicy.BOTH_ORDERS.value: "judging both orders",
    OrderPolicy.AVERAGE_PROBABILITY.value: "averaging the probabilities of both orders",
    OrderPolicy.SINGLE_DRAWN.value: "asking one order, drawn by chance",
    OrderPolicy.SINGLE_AB.value: "asking with the caller's first answer first",
    OrderPolicy.SINGLE_BA.value: "asking with the caller's second answer first",
}


def decide(study: Study) -> dict[str, Any]:
    """The decision, JSON-ready.

    `pattern` (select, any_of, none, not_enough_evidence), `mark`, `sentence`, `rubric`, `judge` (the selected or the
    cheapest one, else null), `judges` (those that will do), `policy`, `threshold`, `missing` (null, or `{what, amount,
    text}`), `floor`, `margin`, `leading`, `optimism` (by how much the best is overrated for having been chosen here),
    `labels`, `labels_needed`, `missing_labels`, `reasons`, `holds`.
    """
    return _Decision(study).made()


class _Decision:
    def __init__(self, study: Study) -> None:
        self.study = study
        self.choice = study.choice
        self.selection = study.choice.selection
        self.n = study.n
        self.rubric = study.dataset.rubric.id
        origin = study.labelled_set
        tuned = origin is not None and Split.DEVELOPMENT in origin.splits
        drawn = drawn_cases(study.labelled.items, unreachable=0 if origin is None else origin.unreachable)
        over = drawn["text"] if drawn is not None and drawn["uneven"] else None
        self.holds = " ".join(part for part in (HOLDS, ON_DEVELOPMENT if tuned else None, over) if part)
        self.place = {column.judge.name: place for place, column in enumerate(study.labelled.columns)}

    def made(self) -> dict[str, Any]:
        missing = self._missing()
        if missing is not None:
            return self._not_enough(*missing)
        assert self.selection is not None  # noqa: S101  # _missing names it otherwise
        if self.selection.verdict == "none meets the floor":
            return self._none(self.selection)
        return self._chosen(self.selection)

    # What is missing, one quantity -----------------------------------------------------------------------------

    def _missing(self) -> tuple[str, int | None, str] | None:
        study, selection = self.study, self.selection
        if self.n < SELECTION:
            amount = (DESCRIBING if self.n < DESCRIBING else SELECTION) - self.n
            return "labels", amount, f"at least {_cases(amount)}"
        if study.labelled_set is None:
            return "frozen_set", None, "a frozen calibration set with people's blind labels; these labels are not one"
        if study.labelled_set.version.status != "frozen":
            return "freeze", None, f"the freeze of {study.labelled_set.version.id}, which may still change"
        if selection is None:
            return "judges", None, "a judge with a model that judged these cases"
        second = sorted((study.labelled.human.count(label) for label in study.classes), reverse=True)[1]
        if second < MIN_OF_CLASS:
            amount = MIN_OF_CLASS - second
            return "labels_of_second_class", amount, f"at least {_cases(amount)} of the second most frequent label"
        groups = len(set(study.labelled.groups))
        if groups < MIN_GROUPS:
            return "groups", MIN_GROUPS - groups, f"at least {MIN_GROUPS - groups} more independent groups of cases"
        if selection.verdict != "not enough evidence":
            return None
        if not selection.comparisons:
            return "reliable_labels", None, f"labels on which people agree: {'; '.join(selection.reasons)}"
        return self._to_separate(selection)

    def _to_separate(self, selection: Selection) -> tuple[str, int | None, str]:
        close = [row for row in selection.comparisons if row.other in selection.leading]
        row = next((row for row in close if not self._within(row)), close[0])
        first, second = row.leader, row.other
        amount = self._more(row)
        if amount is None:
            return "difference", None, f"a way to tell {first} from {second}: they differ on no case"
        return "labels", amount, f"about {_cases(amount)} to tell {first} from {second}"

    def _within(self, row: PairedComparison) -> bool:
        return row.difference.high is not None and row.difference.high < self.study.choices.margin

    def _more(self, row: PairedComparison) -> int | None:
        """Labels beyond those at hand: to find the difference seen, else to narrow its interval to the margin."""
        b, c = row.difference.details["only_first"], row.difference.details["only_second"]
        if b + c == 0:
            return None
        candidates = []
        if b != c and not self.study.uneven:
            needed = labels_for_difference(b / self.n, c / self.n).value
            if needed is not None and needed > self.n:
                candidates.append(int(needed) - self.n)
        low, high = row.difference.low, row.difference.high
        if low is not None and high is not None:
            half = (high - low) / 2
            wanted = self.n * (half / self.study.choices.margin) ** 2
            if wanted > self.n:
                candidates.append(int(-(-wanted // 1)) - self.n)
        return _rounded(min(candidates)) if candidates else _rounded(self.n)

    # The four patterns -----------------------------------------------------------------------------------------

    def _not_enough(self, what: str, amount: int | None, text: str) -> dict[str, Any]:
        needed = DESCRIBING if self.n < DESCRIBING else SELECTION
        sentence = f"Not enough evidence to choose. Missing: {text}."
        return self._decision(
            "not_enough_evidence",
            sentence,
            missing={"what": what, "amount": amount, "text": text},
            labels_needed=needed,
            missing_labels=max(0, needed - self.n),
            reasons=self._few_labels() if self.n < SELECTION else self._why_not(),
        )

    def _none(self, selection: Selection) -> dict[str, Any]:
        best = max(selection.floors, key=lambda row: row.agreement.value or 0.0)
        sentence = f"No judge meets {self._floor_that_failed(best)}. The best, {best.judge}, agrees on "
        sentence += f"{_percent(best.agreement)}."
        return self._decision("none", sentence, reasons=[self._beside(best.judge), *self._fell(selection)])

    def _floor_that_failed(self, floors: Floors) -> str:
        """The floor that the best judge missed: of agreement where it is one, else the first."""
        shares = {miss.code: miss.needed for miss in floors.missed if miss.needed is not None}
        of_agreement = [shares[code] for code in ("agreement", "constant_answer") if code in shares]
        if of_agreement:
            return f"the floor of {max(of_agreement) * 100:.1f}%"
        if "valid_rate" in shares:
            return f"the floor of {shares['valid_rate'] * 100:.1f}% of cases with a usable reply"
        return "every floor"

    def _chosen(self, selection: Selection) -> dict[str, Any]:
        leading = selection.leading
        within = [leading[0]] + [
            row.other for row in selection.comparisons if row.other in leading and self._within(row)
        ]
        named = selection.chosen
        if len(leading) == 1 or len(within) == 1:
            return self._select(selection, named or leading[0], leading[0])
        points = f"{self.study.choices.margin * 100:g}"
        sentence = f"Any of {', '.join(within)} will do: they differ by less than {points} points."
        sentence += f" The cheapest is {named}." if named else " Which of them is the cheapest is not known."
        judge = named or leading[0]
        return self._decision(
            "any_of",
            sentence,
            judge=named,
            judges=within,
            policy=self._policy(judge),
            threshold=self._threshold(judge).threshold,
            reasons=self._reasons(selection, judge, leading[0]),
        )

    def _select(self, selection: Selection, judge: str, best: str) -> dict[str, Any]:
        threshold = self._threshold(judge).threshold
        asking = ASKING.get(self._policy(judge) or "")
        sentence = f"Select {judge} for {self.rubric}{f', {asking}' if asking else ''}."
        sentence += (
            f" At confidence above {threshold:.2f} it may decide alone."
            if threshold is not None
            else " It has no threshold: a person checks its verdicts."
        )
        return self._decision(
            "select",
            sentence,
            judge=judge,
            judges=[judge],
            policy=self._policy(judge),
            threshold=threshold,
            reasons=self._reasons(selection, judge, best),
        )

    def _decision(self, pattern: str, sentence: str, *, reasons: list[str], **more: Any) -> dict[str, Any]:
        selection = self.selection
        optimism = None if selection is None or selection.optimism is None else selection.optimism
        found: dict[str, Any] = {
            "pattern": pattern,
            "mark": MARKS[pattern],
            "sentence": sentence,
            "rubric": self.rubric,
            "judge": None,
            "judges": [],
            "policy": None,
            "threshold": None,
            "missing": None,
            "floor": self.choice.floor,
            "margin": self.study.choices.margin,
            "leading": [] if selection is None else list(selection.leading),
            "optimism": None
            if optimism is None
            else {"value": optimism.value, "corrected": optimism.details["corrected"]},
            "labels": self.n,
            "labels_needed": SELECTION,
            "missing_labels": max(0, SELECTION - self.n),
            "reasons": [text for text in reasons if text][:4],
            "holds": self.holds if pattern in ("select", "any_of") else None,
        }
        return found | more

    def _policy(self, judge: str) -> str | None:
        return self.choice.policies[self.place[judge]].policy

    def _threshold(self, judge: str) -> ThresholdChoice:
        return self.choice.thresholds[self.place[judge]]

    # Reasons ---------------------------------------------------------------------------------------------------

    def _reasons(self, selection: Selection, judge: str, best: str) -> list[str]:
        """At most four, in a fixed order."""
        found = [self._beside(judge), self._lead(selection, judge, best), self._keeps(judge), *self._fell(selection)]
        return [text for text in (*found, self.holds) if text]

    def _beside(self, judge: str) -> str:
        assert self.selection is not None  # noqa: S101  # only judges with floors have reasons
        floor = next(row for row in self.selection.floors if row.judge == judge)
        text = f"{judge} agrees with people on {_percent(floor.agreement)}."
        people = self.study.ceiling["s1"]
        if people.value is None:
            text += " No ceiling is known: fewer than 30 cases have two labels."
        else:
            text += f" Two people agree with each other on {_percent(people)}."
        constant = self.study.constant
        if constant["answer"] is not None:
            text += f" Always answering {constant['answer']} gets {constant['agreement']['value'] * 100:.1f}%."
        return text

    def _lead(self, selection: Selection, judge: str, best: str) -> str:
        rows = selection.comparisons
        if not rows:
            return ""
        if judge != best:
            row = next(row for row in rows if row.other == judge)
            return f"It is cheaper than {best}, and at most {_points(row.difference.high)} points behind it."
        nearest = min(rows, key=lambda row: row.difference.value or 0.0)
        low, high = nearest.difference.low, nearest.difference.high
        value = _points(nearest.difference.value)
        reach = "" if low is None else f" ({_points(low)} to {_points(high)}; same {nearest.difference.n} cases)"
        return f"It is ahead of {nearest.other}, the next best, by {value} points{reach}."

    def _keeps(self, judge: str) -> str:
        chosen = self._threshold(judge)
        if chosen.threshold is None or not chosen.accepted:
            return ""
        kept, n = chosen.accepted, chosen.cases
        right = 100 * (kept - chosen.errors) / kept
        text = f"Above {chosen.threshold:.2f} it keeps {kept} of {n} cases ({100 * kept / n:.1f}%) and agrees on "
        text += f"{right:.1f}% of them"
        if chosen.risk_upper is not None:
            text += f"; at least {100 * (1 - chosen.risk_upper):.1f}% is guaranteed with 95% confidence"
        return f"{text}. The other {n - kept} go to a person."

    def _fell(self, selection: Selection) -> list[str]:
        found = fallen(list(selection.floors), self.study.constant["answer"])
        return [] if found is None else [found]

    def _why_not(self) -> list[str]:
        selection = self.selection
        if selection is None:
            return []
        best = max(selection.floors, key=lambda row: row.agreement.value or 0.0)
        rows = [row for row in selection.comparisons if row.other in selection.leading][:1]
        lead = [
            f"{row.leader} is ahead of {row.other} by {_points(row.difference.value)} points "
            f"({_points(row.difference.low)} to {_points(row.difference.high)}; same {row.difference.n} cases), which "
            f"may be chance."
            for row in rows
            if row.difference.low is not None
        ]
        return [self._beside(best.judge), *lead, *self._fell(selection)]

    def _few_labels(self) -> list[str]:
        n = self.n
        reasons = [
            f"{n} labelled cases describe how a judge behaves; they cannot show that one judge is better than another. "
            f"Below {DESCRIBING} labels nothing is recommended."
            if n < DESCRIBING
            else f"{n} labels describe judges; choosing between clearly different ones needs {SELECTION} or more."
        ]
        figures = list(zip(self.study.labelled.columns, self.study.figures, strict=True))
        models, floor = (
            [
                _count(column.judge.name, row.agreement["raw_agreement"])
                for column, row in figures
                if column.baseline is baseline
            ]
            for baseline in (False, True)
        )
        if models:
            reasons.append(f"Agreement with people on {n} labelled cases: {_listed(models)}.")
        if floor:
            reasons.append(f"Judges without a model, which any judge must beat: {_listed(floor)}.")
        return [*reasons, self._swapped()]

    def _swapped(self) -> str:
        if not self.study.pairs:
            return ""
        for column in self.study.dataset.columns:
            if column.baseline or column.single_order:
                continue
            ab, ba = self.study.dataset.orders(column)
            both = [(a, b) for a, b in zip(ab, ba, strict=True) if a is not None and b is not None]
            first = ab.count("A") + ba.count("B")
            decided = first + ab.count("B") + ba.count("A")
            if both:
                same = sum(a == b for a, b in both)
                return (
                    f"{column.judge.name} gave the same answer in both orders for {same} of {len(both)} pairs, and "
                    f"chose the answer shown first in {first} of {decided} decided verdicts."
                )
        return ""


def _cases(amount: int) -> str:
    return f"{amount:,} more labelled {'case' if amount == 1 else 'cases'}"


def _rounded(amount: int) -> int:
    """Two digits are worth saying."""
    step = int(10 ** max(0, len(str(amount)) - 2))
    return -(-amount // step) * step


def _percent(estimate: Estimate) -> str:
    if estimate.value is None:
        return "no case"
    reach = "" if estimate.low is None or estimate.high is None else (
        f"{estimate.low * 100:.1f} to {estimate.high * 100:.1f}, "
    )  # fmt: skip
    return f"{estimate.value * 100:.1f}% ({reach}n = {estimate.n})"


def _points(share: float | None) -> str:
    return "an unknown number of" if share is None else f"{share * 100:.1f}"


def _count(judge: str, agreement: Estimate) -> str:
    if agreement.value is None:
        return f"{judge} not measured"
    return f"{judge} {int(agreement.numerator or 0)} of {int(agreement.denominator or 0)}"


def _listed(parts: list[str], most: int = 6) -> str:
    more = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {more} more" if more > 0 else "")
