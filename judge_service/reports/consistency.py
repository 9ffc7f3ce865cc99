"""How far a judge's own repeats say the same, over the cases of a run: the mean vote share and the unstable share.

A case counts with two or more votes; failed repeats cast none. Votes of a panel are other judges', never repeats.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calibration.estimate import Estimate, Reason
from calibration.intervals import mean_t, proportion
from calibration.paired import clustered_mean
from judge_service.store import ResultRow


def self_consistency(rows: Sequence[ResultRow], units: Sequence[str]) -> dict[str, Any]:
    """`self_consistency`: the mean over cases of the largest vote share; `unstable`: the share of cases below 1.

    `units` names the independent unit of each row. Both null with `no_repeats` where no case has two votes. Values 0 to
    1; the mean has Student's interval, or the clustered one where units hold several cases; `unstable` has Wilson's.
    `details` count votes a case and cases with a failed repeat; the flag `unequal_repeats` warns that shares fall as
    votes grow.
    """
    found = [
        (row.vote_share, row.votes_cast, row.votes_asked, unit)
        for row, unit in zip(rows, units, strict=True)
        if row.vote_share is not None and row.votes_cast is not None and row.votes_cast >= 2
    ]
    if not found:
        none = Estimate.undefined(Reason.NO_REPEATS, 0, "mean_vote_share").to_dict()
        return {"self_consistency": none, "unstable": none | {"method": "unstable"}}
    shares = [share for share, *_ in found]
    of = [unit for *_, unit in found]
    mean = clustered_mean(shares, of) if len(set(of)) < len(of) else mean_t(shares)
    if mean.low is not None and mean.high is not None:
        mean = replace(mean, low=max(0.0, mean.low), high=min(1.0, mean.high))
    votes = sorted({cast for _, cast, *_ in found})
    lost = sum(cast < (asked or cast) for _, cast, asked, _ in found)
    details = {**mean.details, "votes": votes, "cases_with_failed_repeats": lost}
    flags = ("unequal_repeats",) if len(votes) > 1 else ()
    return {
        "self_consistency": replace(mean, details=details).flagged(*flags).to_dict(),
        "unstable": proportion(sum(share < 1 for share in shares), len(shares)).to_dict(),
    }
