"""Under which configuration a run's judgments were made. Owns the one rule for it; computes no hash.

A panel's hash covers its members, which its run does not hold: each judgment says under which hash it was made.
"""

from collections.abc import Iterable

from judge_service.domain.run import Run


def judge_hashes(run: Run, made: Iterable[str | None]) -> tuple[str, ...]:
    """The distinct hashes of `made`, those of the run's judgments in any order (None: not judged), sorted.

    Without a judgment it is that of the run's judge; empty for a panel, whose hash is not known then.
    """
    found = sorted({one for one in made if one is not None})
    if not found and not run.judge.panel:
        found = [run.judge.content_hash]
    return tuple(found)
