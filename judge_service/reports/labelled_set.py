"""A calibration set as a dataset: its cases, the final label of each, the annotators' labels, the judges' judgments.

Owns which label is final and which runs belong to a set (those whose source is `set:NAME@VERSION`). Computes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judge_service.domain.calibration_set import Label, LabelCondition, SetCase, SetVersion, Split
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Judgment
from judge_service.domain.run import SET_SOURCE, Run
from judge_service.errors import FieldProblem, InvalidInput, NotFound
from judge_service.judging.cases import is_of
from judge_service.reports.dataset import Dataset, LabelledItem, line_up
from judge_service.store import Store
from rubrics.model import Rubric
from rubrics.registry import UnknownRubric, get_rubric

_PAGE = 500


def source_of(set_id: str) -> str:
    """The source of every run over a set."""
    return f"{SET_SOURCE}{set_id}"


@dataclass(frozen=True, slots=True)
class FinalLabel:
    """The label of a case that judges are held against, and how it came about.

    `how`: `adjudicated`, `majority` of several annotators, `single` annotator; without a label `undecided` (the
    annotators are split), `cannot_say` (adjudicated so) or `unlabelled`. `votes` are the blind labels by annotator.
    """

    label: str | None
    how: str
    votes: Mapping[str, str]


def final_label(labels: Iterable[Label]) -> FinalLabel:
    """The adjudicated label, else the majority of the blind human ones; a draw at the top gives none.

    Adjudicators who differ decide nothing: which of them came last is no part of a set's hash. One who cannot say has
    decided that the case has no label.

    Labels made with a model's help, or by a model, have no part in it. A skipped label is missing data, no vote.
    """
    blind = [label for label in labels if label.condition is LabelCondition.BLIND and label.kind == "human"]
    votes = {label.annotator: str(label.label) for label in blind if not label.adjudicated and label.label is not None}
    decided = [label for label in blind if label.adjudicated]
    if decided:
        if len({label.label for label in decided}) > 1:
            return FinalLabel(None, "undecided", votes)
        return FinalLabel(decided[0].label, "cannot_say" if decided[0].label is None else "adjudicated", votes)
    if not votes:
        return FinalLabel(None, "unlabelled", votes)
    ranked = Counter(votes.values()).most_common(2)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return FinalLabel(None, "undecided", votes)
    return FinalLabel(ranked[0][0], "single" if len(votes) == 1 else "majority", votes)


@dataclass(frozen=True)
class LabelledSet:
    """A set version read for statistics.

    `splits` are those of the cases in `dataset`. `labels` counts cases by how their label came about, and the labels
    that have no part (`assisted`, `by_model`, `skipped`). `runs` are the runs behind each judge. `left_out` are runs
    over the set that were made under another content of the rubric or judge. `other_content` are, by judge, ids of
    cases that it judged with another content: such a judgment is none of the case. `closed` counts the cases of a
    frozen release split that were not asked for, and so are in no figure. `unreachable` counts unlabelled cases of
    these splits that no project could have drawn, where labelled ones were drawn.
    """

    version: SetVersion
    splits: tuple[Split, ...]
    dataset: Dataset
    labels: Mapping[str, int]
    runs: Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...]
    other_content: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    closed: int = 0
    unreachable: int = 0


def rubric_of(version: SetVersion, found: Iterable[str], wanted: str | None) -> Rubric[Any]:
    """The rubric that was asked for, else the set's, else the only one that its labels name.

    Raises InvalidInput when there is none, several, or one that this program does not know.
    """
    reference = wanted or version.rubric
    if reference is None:
        names = sorted(set(found))
        if len(names) != 1:
            said = f"holds labels under {', '.join(names)}" if names else "names no rubric and holds no label"
            raise InvalidInput(
                f"The set {version.id} {said}: say which rubric is meant.",
                fields=[FieldProblem("rubric", "is needed")],
            )
        reference = names[0]
    try:
        return get_rubric(reference)
    except UnknownRubric as error:
        raise InvalidInput(str(error), fields=[FieldProblem("rubric", str(error))]) from None


def read_set(
    store: Store,
    reference: str,
    *,
    rubric: str | None = None,
    judges: Sequence[str] = (),
    split: Split | None = None,
    configured: Mapping[str, str] | None = None,
    release: bool = False,
) -> LabelledSet:
    """A set with its labels and judgments.

    Without `split`: the cases of the splits in which every one of the judges has a judgment, or all of them where
    nobody judged; the release split of a frozen set is among them with `release` only, as it is scored once. Without
    `judges`: everyone who judged the set, in the order in which they first did. A judgment joins a case by id and
    content, and is read without its calls, which are counted only. `configured` has the content hash of the
    configuration that is meant, by judge; otherwise it is that of the judge's newest run.
    Raises NotFound for an unknown set, or a judge that did not judge it; InvalidInput when the judges have no split in
    common, or only a closed one.
    """
    version = store.sets.get(reference)
    by_case: dict[str, list[Label]] = {}
    rubrics: set[str] = set()
    for label in store.labels.of(version.id):
        by_case.setdefault(label.case_id, []).append(label)
        rubrics.add(label.rubric)
    found = rubric_of(version, rubrics, rubric)
    counts = _set_aside(by_case.values(), found)
    given, runs, left_out = _judged(store, version, found, judges, configured or {})
    cases = list(store.sets.cases(version.id, split))
    other_content = {name: _joined(cases, judgments, found) for name, (_, judgments) in given.items() if judgments}
    closed = 0
    if split is None:
        asked = _asked(version, cases, {name: judgments for name, (_, judgments) in given.items()})
        if version.status == "frozen" and not release:
            closed = sum(entry.split is Split.RELEASE for entry in cases)
            if closed and (closed == len(cases) or asked == {Split.RELEASE}):
                raise InvalidInput(
                    f"The figures of {version.id} would be those of its release split, which is scored once: name it.",
                    fields=[FieldProblem("split", "is needed: only the release split is left")],
                )
            cases = [entry for entry in cases if entry.split is not Split.RELEASE]
        cases = [entry for entry in cases if not asked or entry.split in asked]
    items = []
    how: Counter[str] = Counter()
    names = set(found.scale.names)
    for entry in cases:
        mine = tuple(label for label in by_case.get(entry.case.id, ()) if label.rubric == found.id)
        final = final_label(mine)
        how[final.how] += 1
        votes = {annotator: label for annotator, label in final.votes.items() if label in names}
        usable = final.label if final.label in names else None
        how["not_of_the_rubric"] += final.label is not None and usable is None
        items.append(LabelledItem(entry.case, usable, votes=votes, split=entry.split, given=mine))
    places = [item.case for item in items]
    columns = tuple(
        line_up(places, judgments.values(), judge, _calls(store, runs[name]))
        for name, (judge, judgments) in given.items()
    )
    splits = tuple(dict.fromkeys(entry.split for entry in cases))
    dataset = Dataset(found, version.id, f"Calibration set {version.id}", tuple(items), columns)
    return LabelledSet(
        version,
        splits,
        dataset,
        dict(how) | counts,
        runs,
        left_out,
        {name: ids for name, ids in other_content.items() if ids},
        closed,
        _unreachable(store, version, found, items),
    )


def _unreachable(store: Store, version: SetVersion, rubric: Rubric[Any], items: Sequence[LabelledItem]) -> int:
    """Unlabelled cases that no project could have drawn: of a split that none draws from, or added after the draw.

    0 where nothing was drawn by a project: what an import's probabilities are of is not known here.
    """
    projects = [one for one in store.projects.all() if one.set_id == version.id and one.rubric == rubric.id]
    if all(one.drawn_from is None for one in projects):
        return 0
    unlabelled = Counter(item.split for item in items if item.label is None)
    reached = {split for one in projects for split in one.splits or Split}
    outside = sum(n for split, n in unlabelled.items() if split not in reached)
    counts = store.sets.split_counts(version.id)
    now = [(sum(counts[split] for split in one.splits or Split), one.drawn_from) for one in projects]
    later = min(0 if drawn is None else max(0, n - drawn) for n, drawn in now)
    return outside + min(later, sum(unlabelled.values()) - outside)


def _joined(cases: Iterable[SetCase], judgments: dict[str, Judgment], rubric: Rubric[Any]) -> tuple[str, ...]:
    """Take out the judgments of another content than the case of that id has; their ids."""
    other = tuple(
        entry.case.id
        for entry in cases
        if (made := judgments.get(entry.case.id)) is not None and not is_of(entry.case, made.case_hash, rubric)
    )
    for case_id in other:
        del judgments[case_id]
    return other


def _asked(version: SetVersion, cases: Sequence[SetCase], judged: Mapping[str, Mapping[str, Judgment]]) -> set[Split]:
    """The splits that every judge was asked about: where one never was, its missing verdicts are no failures of it."""
    splits = {name: {entry.split for entry in cases if entry.case.id in found} for name, found in judged.items()}
    splits = {name: found for name, found in splits.items() if found}
    common = set.intersection(*splits.values()) if splits else set()
    if splits and not common:
        told = "; ".join(f"{name}: {', '.join(sorted(found))}" for name, found in splits.items())
        raise InvalidInput(
            f"The judges of {version.id} judged different splits ({told}): say which split is meant.",
            fields=[FieldProblem("split", "is needed, as the judges have no split in common")],
        )
    return common


def _set_aside(labels: Iterable[Sequence[Label]], rubric: Rubric[Any]) -> dict[str, int]:
    counts = dict.fromkeys(("labels", "assisted", "by_model", "skipped", "other_rubric"), 0)
    for label in (label for group in labels for label in group):
        counts["labels"] += 1
        if label.rubric != rubric.id:
            counts["other_rubric"] += 1
        elif label.kind == "model":
            counts["by_model"] += 1
        elif label.condition is LabelCondition.ASSISTED:
            counts["assisted"] += 1
        elif label.label is None:
            counts["skipped"] += 1
    return counts


def _judged(
    store: Store, version: SetVersion, rubric: Rubric[Any], wanted: Sequence[str], configured: Mapping[str, str]
) -> tuple[dict[str, tuple[Judge, dict[str, Judgment]]], dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Judgments by judge and case, the runs they are from, and the runs left out."""
    of_judge: dict[str, list[Run]] = {}
    left_out: list[str] = []
    for run in store.runs.of_source(source_of(version.id)):
        if run.judge.backend == "recorded" and not run.planned:
            # An import of verdicts that did not end: a part of them is no judge.
            left_out.append(run.id)
            continue
        if run.rubric_hash != rubric.content_hash:
            if run.rubric == rubric.id:
                left_out.append(run.id)
            continue
        of_judge.setdefault(run.judge.name, []).append(run)
    missing = [name for name in wanted if name not in of_judge]
    if missing:
        known = ", ".join(sorted(of_judge)) or "nobody yet"
        raise NotFound(f"{', '.join(missing)} did not judge the set {version.id}; it was judged by {known}.")
    given: dict[str, tuple[Judge, dict[str, Judgment]]] = {}
    runs: dict[str, tuple[str, ...]] = {}
    for name in wanted or of_judge:
        newest, mine, judgments = _of_configuration(store, of_judge[name], configured.get(name))
        left_out.extend(run.id for run in of_judge[name] if run not in mine)
        given[name] = (newest, judgments)
        runs[name] = tuple(run.id for run in mine)
    return given, runs, tuple(left_out)


def _of_configuration(
    store: Store, made: Sequence[Run], wanted: str | None
) -> tuple[Judge, list[Run], dict[str, Judgment]]:
    """The judge's runs and judgments under the `wanted` configuration, else under the newest one.

    A panel's hash covers its members, which its runs do not hold: each judgment says under which hash it was made.
    """
    if not any(run.judge.panel for run in made):
        newest = ([run for run in made if run.judge.content_hash == wanted] or made)[-1].judge
        mine = [run for run in made if run.judge.content_hash == newest.content_hash]
        return newest, mine, {found.case_id: found for run in mine for found in results(store, run.id, calls=False)}
    judged = [(run, list(results(store, run.id, calls=False))) for run in made]
    hashes = [found.judge_hash for _, judgments in judged for found in judgments]
    meant = wanted if wanted in hashes else hashes[-1] if hashes else None
    kept = [(run, [found for found in judgments if found.judge_hash == meant]) for run, judgments in judged]
    # A run without a judgment is of its own configuration only, and there may be nothing else.
    kept = [(run, found) for run, found in kept if found] or kept[-1:]
    return kept[-1][0].judge, [run for run, _ in kept], {one.case_id: one for _, found in kept for one in found}


def _calls(store: Store, run_ids: Iterable[str]) -> dict[str, int]:
    """Requests behind the judgments of runs, by judgment id: what is counted of calls, which are not read here."""
    return {judgment_id: n for run_id in run_ids for judgment_id, n in store.runs.calls_of(run_id).items()}


def results(store: Store, run_id: str, *, calls: bool = True) -> Iterator[Judgment]:
    """The current judgments of a run's cases, in their order; without `calls` they hold none."""
    after = -1
    while page := store.runs.results(run_id, after=after, limit=_PAGE, calls=calls):
        yield from (judgment for _, judgment in page)
        after = page[-1][0]
