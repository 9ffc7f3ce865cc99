"""Trust read from the stored calibrations: calibrated, insufficient, stale or uncalibrated, always with the reason.

Owns the rules of staleness. Everything is held in memory and read again when a calibration was stored or a set frozen;
a judgment waits for the database only when the last look was long ago.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from judge_service.domain.calibration import Calibration, FittedMap
from judge_service.domain.calibration_set import SetVersion, parse_reference
from judge_service.domain.judge import Judge
from judge_service.domain.judgment import Confidence, Trust, TrustLevel
from judge_service.errors import JudgeServiceError
from judge_service.judging.trust import Uncalibrated
from judge_service.store import Store
from judge_service.store.calibrations import Mark

LOOK_EVERY_S = 0.5
"""How often the store is asked, while something is judged, whether another process measured or froze anything: what
is older than twice this is never answered from. What this process did is seen at once."""

log = logging.getLogger(__name__)
_RANK = (TrustLevel.CALIBRATED, TrustLevel.INSUFFICIENT, TrustLevel.STALE)


@dataclass(frozen=True)
class _Known:
    """One reading of the store, never changed: calibrations newest first, by what they may be asked for."""

    mark: Mark
    by_hash: Mapping[str, tuple[Calibration, ...]]
    by_name: Mapping[str, tuple[Calibration, ...]]
    maps: Mapping[str, FittedMap]
    newest_frozen: Mapping[str, SetVersion]


class StoredTrust:
    """The trust source of an installation. Thread-safe; `refresh` reads the store again at once."""

    def __init__(
        self, store: Store, *, monotonic: Callable[[], float] = time.monotonic, every_s: float = LOOK_EVERY_S
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._every_s = every_s
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str, str, str, str | None], tuple[Trust, Calibration | None]] = {}
        self._nothing = Uncalibrated()
        self.refresh()

    def refresh(self) -> None:
        """Read the stored calibrations again. Raises what the store raises."""
        with self._lock:
            changes = self._own_changes()
            mark = self._store.calibrations.mark()
            self._known = self._read(mark)
            self._answers = {}
            self._changes, self._looked_at = changes, self._monotonic()

    def trust(self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None) -> Trust:
        """What was measured, and whether it still holds; without a model, whether it holds for the measured one."""
        return self._answer(rubric_id, rubric_hash, judge, judge_hash, model)[0]

    def calibrated(
        self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None, given: Confidence
    ) -> Confidence:
        """The calibrated confidence by the map of the calibration that supports the trust, where it has one."""
        trust, calibration = self._answer(rubric_id, rubric_hash, judge, judge_hash, model)
        if calibration is None or trust.level is not TrustLevel.CALIBRATED:
            return given
        fitted = self._known.maps.get(calibration.id)
        if fitted is None or not fitted.used or fitted.source is not given.source:
            return given
        return given.model_copy(update={"calibrated": _apply(fitted, given.value), "map_version": fitted.id})

    def measurement(
        self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None
    ) -> Calibration | None:
        """The calibration that supports the trust; None unless the judge is calibrated."""
        trust, calibration = self._answer(rubric_id, rubric_hash, judge, judge_hash, model)
        return calibration if trust.level is TrustLevel.CALIBRATED else None

    def _answer(
        self, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None
    ) -> tuple[Trust, Calibration | None]:
        self._look()
        key = (rubric_id, rubric_hash, judge.name, judge_hash, model)
        answers = self._answers
        found = answers.get(key)
        if found is None:
            found = self._judge(self._known, rubric_id, rubric_hash, judge, judge_hash, model)
            answers[key] = found
        return found

    def _own_changes(self) -> tuple[int, int]:
        return self._store.calibrations.changes, self._store.sets.freezes

    def _look(self) -> None:
        if self._own_changes() != self._changes:
            self.refresh()
            return
        since = self._monotonic() - self._looked_at
        if since >= 2 * self._every_s and self._lock.acquire(blocking=False):
            # After a pause what is held may be of any age: this one judgment waits for one short query.
            self._looked_at = self._monotonic()
            self._look_again()
        elif since >= self._every_s and self._lock.acquire(blocking=False):
            self._looked_at = self._monotonic()
            # The lock is handed to the thread: one look at a time, and no judgment waits for it.
            threading.Thread(target=self._look_again, name="trust", daemon=True).start()

    def _look_again(self) -> None:
        try:
            mark = self._store.calibrations.mark()
            if mark != self._known.mark:
                self._known = self._read(mark)
                self._answers = {}
        except JudgeServiceError as error:
            log.warning("calibrations could not be read again: %s", error.message)
        finally:
            self._lock.release()

    def _read(self, mark: Mark) -> _Known:
        by_hash: dict[str, list[Calibration]] = {}
        by_name: dict[str, list[Calibration]] = {}
        for calibration in self._store.calibrations.all():
            by_hash.setdefault(calibration.judge_hash, []).append(calibration)
            by_name.setdefault(calibration.judge, []).append(calibration)
        newest: dict[str, SetVersion] = {}
        for version in self._store.sets.all():
            if version.status == "frozen":
                newest[version.name] = version
        maps = {fitted.calibration_id: fitted for fitted in self._store.calibrations.maps()}
        return _Known(mark, _frozen(by_hash), _frozen(by_name), maps, newest)

    def _judge(
        self, known: _Known, rubric_id: str, rubric_hash: str, judge: Judge, judge_hash: str, model: str | None
    ) -> tuple[Trust, Calibration | None]:
        name = rubric_id.partition("@")[0]
        related = {
            calibration.id: calibration
            for calibration in (*known.by_hash.get(judge_hash, ()), *known.by_name.get(judge.name, ()))
            if calibration.rubric.partition("@")[0] == name
        }
        if not related:
            return self._nothing.trust(rubric_id, rubric_hash, judge, judge_hash, model), None
        rated = []
        for calibration in related.values():
            changed = _changed(calibration, known, rubric_id, rubric_hash, judge_hash, model)
            level = TrustLevel.STALE if changed else TrustLevel.CALIBRATED
            reason = " ".join(changed)
            if not changed and calibration.shortcoming is not None:
                level, reason = TrustLevel.INSUFFICIENT, calibration.shortcoming
            rated.append((_RANK.index(level), -calibration.created_at.timestamp(), calibration.id, reason, level))
        _, _, best, reason, level = min(rated)
        return _trust(related[best], level, reason), related[best]


def _frozen(found: Mapping[str, Iterable[Calibration]]) -> dict[str, tuple[Calibration, ...]]:
    return {key: tuple(values) for key, values in found.items()}


def _changed(
    calibration: Calibration,
    known: _Known,
    rubric_id: str,
    rubric_hash: str,
    judge_hash: str,
    model: str | None,
) -> list[str]:
    """What changed since the measurement, each in a sentence; empty when it still holds."""
    reasons = []
    if calibration.rubric_hash != rubric_hash:
        other = "another content of it" if calibration.rubric == rubric_id else calibration.rubric
        reasons.append(f"Measured under {other}, not under this {rubric_id}.")
    if calibration.judge_hash != judge_hash:
        reasons.append("The judge's configuration changed since it was measured.")
    if model is not None and calibration.models and model not in calibration.models:
        reasons.append(f"Measured with model {', '.join(calibration.models)}; {model} answered now.")
    name, number = parse_reference(calibration.set_id)
    newest = known.newest_frozen.get(name)
    changed = newest is not None and newest.content_hash != calibration.set_hash
    if newest is not None and number is not None and newest.version > number and changed:
        reasons.append(f"The set changed: measured on {calibration.set_id}, {newest.id} is the newest.")
    return reasons


def _trust(calibration: Calibration, level: TrustLevel, reason: str) -> Trust:
    if level is TrustLevel.CALIBRATED:
        reason = f"Measured on {calibration.n} labelled cases of {calibration.set_id}, split {calibration.split.value}."
    if calibration.effective_n is not None:
        reason += (
            " They were drawn with unequal probabilities and are weighed by them: as sure as "
            f"{calibration.effective_n:.0f} evenly drawn cases."
        )
    return Trust(
        level=level,
        reason=reason,
        calibration_set=calibration.set_id,
        n=calibration.n,
        effective_n=calibration.effective_n,
        agreement=calibration.agreement,
        agreement_low=calibration.agreement_low,
        agreement_high=calibration.agreement_high,
        kappa=calibration.kappa,
        position_consistency=calibration.position_consistency,
        ece=calibration.ece,
        report=f"/v1/calibrations/{calibration.id}",
    )


def _apply(fitted: FittedMap, value: float) -> float:
    from calibration.recalibrate import ConfidenceMap

    record: dict[str, Any] = {"method": fitted.method, "parameters": fitted.parameters, "n": fitted.n}
    mapped = float(ConfidenceMap.from_dict(record).apply([value])[0])
    return min(max(mapped, 0.0), 1.0)
