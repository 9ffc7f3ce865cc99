"""Human labels beside verdicts by case id, with everything that does not join listed instead of counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable

from calibration.agreement import PairedLabels
from calibration.estimate import InvalidStatisticInput


@dataclasses.dataclass(frozen=True, slots=True)
class HumanLabel:
    """One label of one case. `human` False marks a label made by, or with the help of, a model."""

    case_id: str
    label: str
    human: bool = True
    rubric: str | None = None
    group: Hashable = None


@dataclasses.dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """One verdict of one case; None with `error` when the judge failed."""

    case_id: str
    verdict: str | None
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class JoinedLabels:
    """Labels and verdicts of the same cases, in the order of the labels.

    `judge` holds None where the judge failed: such cases stay in the denominators. Listed apart by case id, and in no
    figure: `without_verdict`, `without_label`, `errors_without_label`, `not_human` and `other_rubric`.
    """

    case_ids: tuple[str, ...]
    human: tuple[str, ...]
    judge: tuple[str | None, ...]
    groups: tuple[Hashable, ...]
    without_verdict: tuple[str, ...]
    without_label: tuple[str, ...]
    errors_without_label: tuple[str, ...]
    not_human: tuple[str, ...]
    other_rubric: tuple[str, ...]

    def paired(self, classes: tuple[str, ...], *, ordered: bool = False) -> PairedLabels:
        """The joined cases for `Agreement`, grouped where a group was given."""
        groups = [case if group is None else group for case, group in zip(self.case_ids, self.groups, strict=True)]
        return PairedLabels.of(self.judge, self.human, classes, groups=groups, ordered=ordered)


def join_labels(
    labels: Iterable[HumanLabel],
    verdicts: Iterable[JudgeVerdict],
    *,
    rubric: str | None = None,
    missing: str = "listed",
) -> JoinedLabels:
    """Join by case id. With `rubric`, labels made under another version are left out and listed.

    `missing`: a label without any verdict is `listed` apart (default), or `wrong`: an expected case that the judge
    failed. The same case twice among the labels or the verdicts is refused.
    """
    if missing not in ("listed", "wrong"):
        raise InvalidStatisticInput(f"unknown treatment of missing verdicts {missing!r}: listed or wrong")
    said: dict[str, JudgeVerdict] = {}
    for verdict in verdicts:
        if verdict.case_id in said:
            raise InvalidStatisticInput(f"two verdicts for case {verdict.case_id!r}")
        said[verdict.case_id] = verdict
    seen: set[str] = set()
    kept: list[tuple[HumanLabel, str | None]] = []
    without_verdict, not_human, other_rubric = [], [], []
    for label in labels:
        if label.case_id in seen:
            raise InvalidStatisticInput(f"two labels for case {label.case_id!r}: adjudicate them first")
        seen.add(label.case_id)
        if not label.human:
            not_human.append(label.case_id)
        elif rubric is not None and label.rubric != rubric:
            other_rubric.append(label.case_id)
        elif label.case_id in said:
            kept.append((label, said[label.case_id].verdict))
        else:
            without_verdict.append(label.case_id)
            if missing == "wrong":
                kept.append((label, None))
    unlabelled = [verdict for case, verdict in said.items() if case not in seen]
    return JoinedLabels(
        tuple(label.case_id for label, _ in kept),
        tuple(label.label for label, _ in kept),
        tuple(verdict for _, verdict in kept),
        tuple(label.group for label, _ in kept),
        tuple(without_verdict),
        tuple(verdict.case_id for verdict in unlabelled if verdict.verdict is not None),
        tuple(verdict.case_id for verdict in unlabelled if verdict.verdict is None),
        tuple(not_human),
        tuple(other_rubric),
    )
