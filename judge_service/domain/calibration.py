"""A calibration: what was measured about one judge under one rubric on one frozen set; and its map of confidences.

Owns the record that trust is read from. Knows no statistics: the figures were computed when it was made.
"""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from judge_service.domain.calibration_set import Split
from judge_service.domain.judge import ConfidenceSource


class Calibration(BaseModel):
    """One measurement, never changed afterwards.

    `models` are the judge models that answered, as the provider reported them. `n` counts the labelled cases of the
    split, judged or not; `groups` the independent ones. `shortcoming` says why the measurement supports no trust; null
    when it does. Figures that are undefined are null; the stored statistics hold each with its reason. `effective_n`:
    the cases were drawn for labelling with unequal probabilities, `agreement`, `kappa`, `position_consistency`, `ece`
    weigh them, and the agreement is as sure as so many evenly drawn cases would make it; null where they count alike.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    rubric: str
    rubric_hash: str
    judge: str
    judge_hash: str
    models: tuple[str, ...]
    set_id: str
    set_hash: str
    split: Split
    runs: tuple[str, ...]
    n: int = Field(ge=0)
    groups: int = Field(ge=0)
    shortcoming: str | None = None
    agreement: float | None = Field(default=None, allow_inf_nan=False)
    agreement_low: float | None = Field(default=None, allow_inf_nan=False)
    agreement_high: float | None = Field(default=None, allow_inf_nan=False)
    kappa: float | None = Field(default=None, allow_inf_nan=False)
    position_consistency: float | None = Field(default=None, allow_inf_nan=False)
    ece: float | None = Field(default=None, allow_inf_nan=False)
    effective_n: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    created_at: datetime


class FittedMap(BaseModel):
    """A map from raw to calibrated confidence as it was fitted, or why there is none.

    `id` is the version that judgments carry. `method` is `identity` where no map is used, and `refused` says why: too
    few labels, one class, separation, or no improvement out of fold. `quality` holds the out-of-fold figures.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    calibration_id: str
    source: ConfidenceSource
    wanted: str
    method: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    n: int = Field(ge=0)
    refused: str | None = None
    quality: dict[str, Any] = Field(default_factory=dict)
    created_at: datetime

    @property
    def used(self) -> bool:
        """True when judgments get a calibrated confidence from it."""
        return self.refused is None
