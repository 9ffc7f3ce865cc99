"""Names of records that nobody can guess and that sort by when they were made."""

import secrets
import time


def ordered_id(kind: str) -> str:
    """`kind`, an underscore and 32 hex digits: 12 of the milliseconds since 1970, then 80 random bits.

    Later ones sort after earlier ones, up to the clock's own jumps, so that a database adds to the end of an index in
    place of all over it: a fifth fewer pages a judgment.
    """
    return f"{kind}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
