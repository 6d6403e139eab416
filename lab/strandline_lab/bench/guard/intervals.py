"""How much faster one side is than the other, from measurements made in pairs.

Each pair gives a ratio. If both sides are alike, it is as likely to be r as 1/r, and its logarithm is
symmetric about zero. Wilcoxon's signed-rank test asks for no more of the measurements. The interval is all
ratios that the test does not reject; its ends are means of two logarithms (Tukey's interval; Hollander, Wolfe
and Chicken, Nonparametric Statistical Methods, 3.3).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final

CONFIDENCE: Final = 0.95
PAIRS_MIN: Final = 6
"""With fewer pairs no result at all is rare enough: five equal signs come by chance in 6 % of all cases."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate of a ratio (Hodges and Lehmann), and its confidence interval."""

    low: float
    middle: float
    high: float


def interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The ratios are positive. Raises ValueError if there are too few for this confidence."""
    logs = [math.log(ratio) for ratio in ratios]
    means = sorted((one + other) / 2 for one, other in combinations_with_replacement(logs, 2))
    cut = rejected(len(logs), 1 - confidence)
    if not cut:
        raise ValueError(f"{len(logs)} pairs are too few for a confidence of {confidence:.0%}")
    low, middle, high = means[cut - 1], statistics.median(means), means[-cut]
    return Interval(math.exp(low), math.exp(middle), math.exp(high))


def rejected(pairs: int, chance: float) -> int:
    """How many of the least rank sums, and of the greatest, come together at most with this chance."""
    ways = rank_sums(pairs)
    below = count = 0
    for number in ways:
        below += number
        if 2 * below > chance * 2**pairs:
            break
        count += 1
    return count


def rank_sums(pairs: int) -> list[int]:
    """For each sum of ranks from 0 on: how many subsets of the ranks 1 to `pairs` have it."""
    ways = [1] + [0] * (pairs * (pairs + 1) // 2)
    for rank in range(1, pairs + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return ways
