"""When a table that other processes change is read again."""

import asyncio

from judge_service.runs.in_step import FRESH_S, InStep


class Table(InStep):
    def __init__(self) -> None:
        self.time, self.reads = 0.0, 0
        super().__init__(lambda: self.time)

    def _read(self) -> None:
        self.reads += 1


async def test_it_is_read_when_it_is_due_and_once_for_all_who_ask() -> None:
    table = Table()
    await asyncio.gather(*(table.fresh() for _ in range(5)))
    assert table.reads == 1
    table.time += FRESH_S - 0.01
    await table.fresh()
    assert table.reads == 1
    table.time += 0.01
    await asyncio.gather(*(table.fresh() for _ in range(5)))
    assert table.reads == 2


async def test_it_is_read_at_once_where_a_name_is_not_known() -> None:
    table = Table()
    table.read()
    await table.fresh(at_once=True)
    assert table.reads == 2
    # That counts for those who come after.
    table.time += FRESH_S - 0.01
    await table.fresh()
    assert table.reads == 2
