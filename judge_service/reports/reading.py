"""A stored set as the study of a judge-selection report: which split, which judges, which cases choose beforehand.

Owns what is read for a report. Release is read only when it is asked for, and that is recorded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judge_service.domain.calibration_set import Split
from judge_service.errors import FieldProblem, InvalidInput
from judge_service.reports.baselines import with_baselines
from judge_service.reports.dataset import Dataset, JudgeColumn, key_value
from judge_service.reports.labelled_set import LabelledSet, read_set
from judge_service.reports.measuring import record_scored
from judge_service.reports.planted import shown_result
from judge_service.reports.rules import Rules
from judge_service.reports.selection import build_report
from judge_service.reports.study import Choices, Study
from judge_service.settings import Settings
from judge_service.store import Store

PREFERRED = (Split.CALIBRATION, Split.DEVELOPMENT, Split.MONITORING)
"""The split of a report that names none: the first of these on which a judge judged. Never release."""
_TUNED_ON = {Split.RELEASE: Split.CALIBRATION, Split.CALIBRATION: Split.DEVELOPMENT}
"""Where order policy and threshold are chosen, for a report over the key's cases."""


def families_of(given: Sequence[str]) -> dict[str, str]:
    """`PART=FAMILY` texts as a mapping. Raises InvalidInput for one that is none."""
    found = {}
    for text in given:
        part, family = key_value(text, "family")
        if not family:
            raise InvalidInput(fields=[FieldProblem("family", f"{text!r} is not PART=FAMILY")])
        found[part] = family
    return found


def set_report(
    store: Store,
    settings: Settings,
    reference: str,
    *,
    rubric: str | None = None,
    judges: Sequence[str] = (),
    split: Split | None = None,
    choices: Choices | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """The report over one set; what it uses of a frozen release split is recorded first. Arguments as of `read_study`.

    Raises Conflict for a second look at a release split under other choices, unless `again` says that it is tuning.
    """
    chosen = choices or Choices()
    study = read_study(store, settings, reference, rubric=rubric, judges=judges, split=split, choices=chosen)
    rules = Rules(target=chosen.target, families=tuple(f"{part}={name}" for part, name in chosen.families.items()))
    scored = _of_the_store(study)
    record_scored(store, scored, rules, by=chosen.by, again=again, check=True)
    report = build_report(study)
    # Before the report is shown, and after it was found to be computable.
    record_scored(store, scored, rules, by=chosen.by, again=again)
    return report


def _of_the_store(study: Study) -> LabelledSet:
    """The set with the judges that have runs over it: baselines that were judged for the report only use nothing up."""
    found = study.labelled_set
    if found is None:
        raise ValueError("the study is of no stored set")
    columns = tuple(column for column in found.dataset.columns if column.judge.name in found.runs)
    return replace(found, dataset=replace(found.dataset, columns=columns))


def read_study(
    store: Store,
    settings: Settings,
    reference: str,
    *,
    rubric: str | None = None,
    judges: Sequence[str] = (),
    split: Split | None = None,
    choices: Choices | None = None,
) -> Study:
    """Everything of a report over one set. Without `judges`: all that judged the split, baselines without a model last.

    Records nothing: `set_report` does. Raises NotFound and InvalidInput as `read_set` does, and for choices that are
    out of range.
    """
    chosen = choices or Choices()
    _check(chosen)
    found = _of_split(store, reference, rubric, judges, split)
    models = [column.judge.name for column in found.dataset.columns]
    own = found.splits[0] if len(found.splits) == 1 else None
    tuning = None if own is None else _tuning(store, found, own, models)
    whole = replace(found, dataset=with_baselines(found.dataset, settings))
    if tuning is not None:
        # The baselines are chosen nothing for, but judges stand at the same places in both.
        more = whole.dataset.columns[len(models) :]
        empty = tuple(JudgeColumn(column.judge, (None,) * len(tuning.dataset.items)) for column in more)
        tuning = replace(tuning, dataset=replace(tuning.dataset, columns=(*tuning.dataset.columns, *empty)))
    return Study(
        whole.dataset,
        chosen,
        labelled_set=whole,
        tuning=None if tuning is None else Study(tuning.dataset, chosen, labelled_set=tuning),
        probes=_probes(store, found.dataset),
    )


def _check(choices: Choices) -> None:
    for name, value in (("floor", choices.floor), ("target", choices.target), ("margin", choices.margin)):
        if value is not None and not 0 < value < 1:
            raise InvalidInput(fields=[FieldProblem(name, "must lie between 0 and 1, both excluded")])


def _of_split(
    store: Store, reference: str, rubric: str | None, judges: Sequence[str], split: Split | None
) -> LabelledSet:
    version = store.sets.get(reference)
    if split is not None:
        return _judged_there(read_set(store, version.id, rubric=rubric, judges=judges, split=split), judges)
    counts = store.sets.split_counts(version.id)
    first: LabelledSet | None = None
    for candidate in PREFERRED:
        if counts[candidate] == 0:
            continue
        found = _judged_there(read_set(store, version.id, rubric=rubric, judges=judges, split=candidate), judges)
        if any(_judged(column) for column in found.dataset.columns):
            return found
        first = first or found
    if first is None:
        raise InvalidInput(
            f"The set {version.id} holds cases of the release split only, which a report reads when it is asked to.",
            fields=[FieldProblem("split", "is needed: `release` scores each judge once")],
        )
    return first


def _judged(column: JudgeColumn) -> bool:
    return any(judgment is not None for judgment in column.judgments)


def _judged_there(found: LabelledSet, judges: Sequence[str]) -> LabelledSet:
    """Without the judges that were never asked about this split, unless named: that is no failure of theirs."""
    if judges:
        return found
    columns = tuple(column for column in found.dataset.columns if _judged(column))
    return replace(found, dataset=replace(found.dataset, columns=columns))


def _tuning(store: Store, found: LabelledSet, own: Split, models: Sequence[str]) -> LabelledSet | None:
    other = _TUNED_ON.get(own)
    if other is None or not models or store.sets.split_counts(found.version.id)[other] == 0:
        return None
    tuning = read_set(store, found.version.id, rubric=found.dataset.rubric.id, judges=models, split=other)
    judged = any(_judged(column) for column in tuning.dataset.columns)
    return tuning if judged and tuning.dataset.labelled else None


def _probes(store: Store, dataset: Dataset) -> Mapping[str, Mapping[str, object]]:
    """The newest results of planted orders under this rubric, by judge."""
    found = {}
    for column in dataset.columns:
        made = next((judgment for judgment in column.judgments if judgment is not None), None)
        result = None if made is None else store.probes.latest(made.judge_hash, dataset.rubric.id)
        if result is not None:
            found[column.judge.name] = shown_result(result)
    return found
