"""One press of a button on the labelling page: what it does to the case, and what the person is shown then.

Owns what is said about stale saves, full cases and gaps. Knows no HTTP; all blocks.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from judge_service.annotation.labelling import Labelling, ShownCase
from judge_service.annotation.shapes import Answer, Draft
from judge_service.domain.annotation import Progress, State
from judge_service.errors import Conflict, FieldProblem, InvalidInput, NotFound
from judge_service.store.assignments import EnoughLabels, ProjectClosed, StaleSave
from judge_service.web.label_fields import Fields, added, answer_of, merged, one, removed
from judge_service.web.label_view import View, in_words, view_of


@dataclass(frozen=True, slots=True)
class Both:
    """Two answers to one case, from two tabs: which is to be kept? `of_draft`: nothing was saved yet."""

    yours: tuple[str, ...]
    saved: tuple[str, ...]
    of_draft: bool = False
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """What comes next. `view` None: no case. `said` is spoken, `told` stands on the page, `done` what was done."""

    view: View | None
    progress: Progress
    said: str = ""
    done: str = ""
    told: str = ""
    both: Both | None = None
    full: bool = False
    closed: bool = False
    quiet: bool = False
    status: int = 200


def shown_now(labelling: Labelling, project: str, person: str, done: str = "") -> Turn:
    """The case to label now. `done` is what was done just before, so that it can be said."""
    try:
        shown = labelling.next(project, person)
    except ProjectClosed as closed:
        return Turn(None, labelling.progress(project, person), told=closed.message, closed=True)
    before = {"saved": "Saved. ", "skipped": "Skipped. ", "undone": "Undone. "}.get(done, "")
    if shown is None:
        return Turn(None, labelling.progress(project, person), said=f"{before}No cases left for you.", done=done)
    view = view_of(shown)
    return Turn(
        view, labelling.progress(project, person), said=f"{before}{view.position}." if before else "", done=done
    )


def take(labelling: Labelling, project: str, person: str, name: str, fields: Fields) -> Turn:
    """Do what the button `do` of the sent form asks for. Raises NotFound, Forbidden, and InvalidInput for no button."""
    what, _, which = one(fields, "do").partition(":")
    if what != "undo" and what not in _ACTIONS:
        raise InvalidInput("This page does not know that button.", fields=[FieldProblem("do", "do: unknown.")])
    if what == "undo":
        return _undo(labelling, project, person, name, fields)
    shown = labelling.show(one(fields, "case"), person)
    if shown.project != project:
        raise NotFound("There is no such case in this project.")
    return _ACTIONS[what](_Press(labelling, shown, project, person, name, fields, which))


@dataclass(frozen=True, slots=True)
class _Press:
    labelling: Labelling
    shown: ShownCase
    project: str
    person: str
    name: str
    fields: Fields
    which: str

    @property
    def whole(self) -> bool:
        """True where the answer was sent too, and not only a small form beside it."""
        return "seconds" in self.fields

    @property
    def answer(self) -> Answer:
        return answer_of(self.shown.form, self.fields)

    @property
    def note(self) -> str:
        return one(self.fields, "note").replace("\r\n", "\n")

    @property
    def seconds(self) -> float | None:
        try:
            seconds = float(one(self.fields, "seconds"))
        except ValueError:
            return None
        return seconds if 0 <= seconds < 1e9 else None

    def number(self, name: str) -> int:
        """A version that the page was made with."""
        text = one(self.fields, name)
        if not text.isdecimal() or len(text) > 9:
            raise InvalidInput(fields=[FieldProblem(name, f"{name}: this page did not send that.")])
        return int(text)

    def again(
        self,
        answer: Answer | None = None,
        *,
        problems: Sequence[FieldProblem] = (),
        status: int = 200,
        said: str = "",
        told: str = "",
        both: Both | None = None,
        full: bool = False,
        version: int | None = None,
    ) -> Turn:
        """The same case again, filled in as it was sent."""
        if answer is None and self.whole:
            answer = self.answer
        view = view_of(
            self.labelling.show(self.shown.case, self.person),
            answer=answer,
            note=self.note if self.whole else None,
            version=self.number("version") if version is None else version,
            problems=problems,
        )
        progress = self.labelling.progress(self.project, self.person)
        return Turn(view, progress, said=said, told=told, both=both, full=full, status=status)

    def wrong(self, error: InvalidInput) -> Turn:
        """The same case with what must be mended."""
        problems = error.fields or (FieldProblem("case", error.message),)
        answer = None
        try:
            answer = self.answer if self.whole else None
        except InvalidInput:
            # What was sent has no answer in it: the draft is shown.
            answer = Draft.model_validate(self.shown.draft or {})
        return self.again(answer, problems=problems, status=error.status, said=problems[0].message)


def _save(press: _Press) -> Turn:
    try:
        answer = press.answer
        press.labelling.save(
            press.shown.case,
            press.person,
            press.name,
            answer.model_dump(mode="json"),
            press.number("version"),
            note=press.note,
            seconds=press.seconds,
        )
    except InvalidInput as error:
        return press.wrong(error)
    except StaleSave as error:
        return _stale(press, answer, error)
    except (EnoughLabels, ProjectClosed) as error:
        return press.again(status=error.status, told=error.message, full=True)
    except Conflict as error:
        return press.again(status=error.status, told=error.message)
    return shown_now(press.labelling, press.project, press.person, "saved")


def _stale(press: _Press, answer: Answer, error: StaleSave) -> Turn:
    saved = error.extra.get("saved")
    form = press.shown.form
    both = Both(
        yours=tuple(in_words(form, answer)),
        saved=tuple(in_words(form, Answer.model_validate(saved))) if saved is not None else (),
        skipped=error.extra.get("state") == State.SKIPPED.value,
    )
    # Saving again from here is a choice that was made with both in sight.
    return press.again(status=error.status, both=both, version=error.extra["version"])


def _draft(press: _Press) -> Turn:
    try:
        _keep(press, press.answer)
    except StaleSave as error:
        saved = Draft.model_validate(error.extra.get("saved") or {})
        both = Both(
            yours=tuple(in_words(press.shown.form, press.answer)),
            saved=tuple(in_words(press.shown.form, saved)),
            of_draft=True,
        )
        return press.again(status=error.status, both=both)
    except InvalidInput as error:
        return press.wrong(error)
    return replace(press.again(), quiet=press.which == "quiet")


def _keep(press: _Press, answer: Answer) -> None:
    draft = answer.model_dump(mode="json") | ({"note": press.note} if press.note.strip() else {})
    press.labelling.keep_draft(press.shown.case, press.person, draft, press.number("draft_version"), press.seconds)


def _skip(press: _Press) -> Turn:
    reason = press.which or one(press.fields, "reason")
    try:
        press.labelling.skip(press.shown.case, press.person, press.number("version"), reason)
    except InvalidInput as error:
        return press.wrong(error)
    except StaleSave as error:
        return press.again(status=error.status, told="You saved this case in another tab; it was not skipped.")
    return shown_now(press.labelling, press.project, press.person, "skipped")


def _flag(press: _Press) -> Turn:
    text = None if press.which == "off" else one(press.fields, "flag")
    try:
        if text is not None and not text.strip():
            raise InvalidInput(fields=[FieldProblem("flag", "Say what the lead should look at.")])
        press.labelling.flag(press.shown.case, press.person, text)
    except InvalidInput as error:
        return press.wrong(error)
    return press.again(said="Flagged for the lead." if text else "The flag is off.")


def _edit(press: _Press) -> Turn:
    form, kind = press.shown.form, one(press.fields, "do").partition(":")[0]
    try:
        answer = press.answer
        if kind == "add":
            answer = added(form, answer, one(press.fields, "new"))
            said = f"{form.item_noun.capitalize()} {len(answer.items)} added."
        elif kind == "merge":
            answer = merged(form, answer, press.which)
            said = "Merged. Answer it again."
        else:
            answer = removed(form, answer, press.which)
            said = f"Removed. {len(answer.items)} left."
        _keep(press, answer)
    except InvalidInput as error:
        return press.wrong(error)
    except StaleSave:
        return _draft(press)
    return press.again(answer, said=said)


def _undo(labelling: Labelling, project: str, person: str, name: str, fields: Fields) -> Turn:
    _keep_first(labelling, project, person, name, fields)
    try:
        shown = labelling.undo(project, person)
    except Conflict as error:
        turn = shown_now(labelling, project, person)
        return replace(turn, told=error.message, said=error.message, status=error.status)
    progress = labelling.progress(project, person)
    return Turn(view_of(shown), progress, said=f"Undone. Case {shown.number}.", done="undone")


def _keep_first(labelling: Labelling, project: str, person: str, name: str, fields: Fields) -> None:
    """Keep the draft of the case that is left by an undo. A newer draft of another tab stays."""
    if "seconds" not in fields:
        return
    shown = labelling.show(one(fields, "case"), person)
    press = _Press(labelling, shown, project, person, name, fields, "")
    with contextlib.suppress(StaleSave):
        _keep(press, press.answer)


_ACTIONS: Mapping[str, Callable[[_Press], Turn]] = {
    "save": _save,
    "draft": _draft,
    "skip": _skip,
    "flag": _flag,
    "add": _edit,
    "merge": _edit,
    "remove": _edit,
}
