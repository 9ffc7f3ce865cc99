"""How long a reply can get: the token limit that a constraint's worst case needs, so that nothing legal is cut."""

from weakref import WeakKeyDictionary

from judge_service.backends.grammar import GrammarError, worst_case_tokens
from rubrics.model import ChoiceConstraint, Constraint
from rubrics.records import DecodingModel

_MARGIN = 16
_UNMEASURED = 4096
"""For a shape outside the portable subset, which has no longest reply."""

_known: WeakKeyDictionary[type[DecodingModel], int] = WeakKeyDictionary()


def _measure(constraint: Constraint) -> int:
    try:
        return worst_case_tokens(constraint) + _MARGIN
    except GrammarError:
        return _UNMEASURED


def reply_limit(constraint: Constraint) -> int:
    """Tokens that the longest legal compact reply can need, counting one token a character.

    Degenerate text runs at about one token a character, so anything less could cut a legal reply. It is a cap,
    not a cost.
    """
    if isinstance(constraint, ChoiceConstraint):
        return _measure(constraint)
    limit = _known.get(constraint.model)
    if limit is None:
        limit = _known[constraint.model] = _measure(constraint)
    return limit
