"""Times are stored as SQLAlchemy itself would store them, whatever the zone they came in."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import DateTime
from sqlalchemy.dialects import postgresql, sqlite

from judge_service.store.types import UtcDateTime

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-9))])
LIMITS = datetime(1970, 1, 3), datetime(9999, 12, 29)  # noqa: DTZ001  # Hypothesis wants them without a zone
TIMES = st.datetimes(*LIMITS, timezones=ZONES)


@given(TIMES)
def test_the_text_in_sqlite(time: datetime) -> None:
    dialect = sqlite.dialect()
    plain = DateTime().dialect_impl(dialect).bind_processor(dialect)
    ours = UtcDateTime().bind_processor(dialect)
    assert plain is not None
    assert ours(time) == plain(time.astimezone(UTC))


@given(TIMES)
def test_the_time_in_postgresql(time: datetime) -> None:
    stored = UtcDateTime().bind_processor(postgresql.dialect())(time)
    assert (stored, stored.tzinfo) == (time, UTC)


@pytest.mark.parametrize("dialect", [sqlite.dialect(), postgresql.dialect()])
def test_a_time_without_a_zone_is_refused(dialect: object) -> None:
    process = UtcDateTime().bind_processor(dialect)
    assert process(None) is None
    with pytest.raises(ValueError, match="time zone"):
        process(datetime(2026, 1, 1))  # noqa: DTZ001
