"""What each pair says for and against an item, from its rating and its events; `Calibration` has the figures for it.

* A count or a click is a preference of 1, with a confidence that grows with the count. A rating below `middle` and a
  count below 0 are dislikes: a preference of 0, with a confidence that grows with the distance.
* Ratings on a scale and events of one data set are both evidence (`evidence`): events never change what a rating says.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpu.data.draws import by_threads
from gpu.data.evidence import amounts, have_events, unpacked
from gpu.data.ratings import NO_MIDDLE, Ratings, are_likes

Kind = Literal["ratings", "counts"]

PIECE = 2**16  # values, whose intermediate numbers stay in the cache
LEAST_SIGNAL = 1 / 16  # share of the width of the scale; confidence of a rating at the middle
DISLIKED = np.float32(
    -0.25
)  # EASE: x of a dislike in lists; in training it is 0. See `gpu.data.calibration.NOISE_RIDGE`
EVENT_WEIGHT = 1.0  # α_e, where the data has too few events to choose one: an event says as much as a liked rating


@dataclass(frozen=True)
class Trend:
    """How much of what is popular now belongs into the scores of a model, as its training has measured.

    Attributes:
        weight: added to the score of the item with the most pairs, an older pair counting less; others get their
            share of it. 0: nothing is added.
        half_life_days: age at which a pair counts half; the best one, also if the weight is 0.
        n_pairs: newest pairs that were held out for this, of users with older ones.
        gain, interval: what it added to NDCG@20 of the lists of their users, and the bounds of 80 %. A list counts with
            the weight that is best for others.
        remark: why nothing is added; empty if something is.
    """

    weight: float = 0.0
    half_life_days: float = 0.0
    n_pairs: int = 0
    gain: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)
    remark: str = ""


@dataclass(frozen=True)
class Repeat:
    """Whether what users had comes back in their lists, and how much of their own past is in scores.

    Attributes:
        weight: of log(1 + strength) of a pair in its score; 0: lists leave out what users had.
        half_life_days: age, up to the user's newest pair, at which this counts half; 0: age does not matter.
        share: of the newest pairs that users had before.
        n_pairs: newest pairs that were held out for this, of users with older ones.
        gain, interval: what the weight added to NDCG@10 beside lists without what users had, and the bounds of 95 %. A
            list counts with the weight that is best for others.
        remark: why nothing comes back; empty if it does.
    """

    weight: float = 0.0
    half_life_days: float = 0.0
    share: float = 0.0
    n_pairs: int = 0
    gain: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)
    remark: str = ""


@dataclass(frozen=True)
class Calibration:
    """Figures of the data that a model was trained on. The defaults leave values unchanged.

    Attributes:
        unit: deviation of ratings from shrunk biases (`als`: `ALS_UNIT` times it); explicit models learn multiples.
        origin: the rating from which Ψ = `power` of `gpu.hashing.simlsh` counts.
        values: `ratings` on a scale, or `counts`.
        middle: values below it are dislikes; 0 for counts. −inf, of older models of counts: nothing is a dislike.
        scale: (lowest, highest); implicit models clip values to it.
        is_damped: whether the confidence of a count c is 1 + ln(c / lowest).
        typical: mean signal of likes; signals are divided by it, so that α is the average weight of a like.
        alpha, regularization: α and λ of implicit ALS; λ of EASE.
        prior: λ0 of the ridge λ n + λ0 in ALS.
        density: share of rated pairs among all pairs of a user and an item with ratings.
        as_of_s: t₀ of `gpu.data.decay`, Unix seconds; 0 without a half-life.
        usual_weight: weights by age are divided by it (`gpu.data.decay`). 1 without a half-life, and in implicit ALS,
            where `typical` has it.
        event_weight: α_e, the confidence of a usual event beside ratings on a scale; that of a usual liked rating is 1.
        n_factors: F, if held-out pairs chose it (`gpu.training.selection`); 0 if it was given.
        chosen: what held-out pairs of the training ratings decided, and why: a sentence each.
        event_scale, event_damped, event_typical: `scale`, `is_damped` and `typical` of the sums of events, which are
            counts, beside ratings. By default a view counts as much as a usual liked rating, and a purchase 3.3 times
            as much, until a training has seen events.
        trend: None if the training had no times.
        repeat: None if the training had no events.
    """

    unit: float = 1.0
    origin: float = 0.0
    values: Kind = "counts"
    middle: float = NO_MIDDLE
    scale: tuple[float, float] = (0.0, math.inf)
    is_damped: bool = False
    typical: float = 1.0
    alpha: float = 1.0
    regularization: float = 0.0
    prior: float = 0.0
    density: float = 0.0
    as_of_s: float = 0.0
    usual_weight: float = 1.0
    event_weight: float = EVENT_WEIGHT
    event_scale: tuple[float, float] = (1.0, math.inf)
    event_damped: bool = True
    event_typical: float = 1.0
    n_factors: int = 0
    chosen: tuple[str, ...] = ()
    trend: Trend | None = None
    repeat: Repeat | None = None

    @property
    def lift(self) -> float:
        """Ratings by which an event of 1 moves the merit of a rated pair (`gpu.data.evidence.merits`); 1 among
        counts.
        """
        if self.values == "counts":
            return 1.0
        width = self.scale[1] - self.scale[0]
        unit = self.event_typical * (self.event_scale[0] if self.event_damped else 1.0)
        return self.event_weight * self.typical * width / unit


NEUTRAL = Calibration()


def before_calibration(parameters: dict[str, Any]) -> Calibration:
    """The calibration of a model with these parameters from a version without any: values stay unchanged."""
    figures = {name: parameters[name] for name in ("alpha", "regularization") if name in parameters}
    return Calibration(**figures)


def evidence(values: NDArray[np.floating], calibration: Calibration) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(c⁺, c⁻) of pairs with these `values` (B,): how much their ratings and events say for them and against them.

    A rating r beside a sum e of events, with the sign of e as that of the events:

        c⁺ = c_r [r ≥ middle] + α_e e⁺    c⁻ = c_r [r < middle] + α_e e⁻

    c_r and e are signals: multiples of what a usual liked rating, and a usual pair with events, say. Counts, and events
    of data whose values are counts, are all added up first. Both numbers are above 0 only for a pair of ratings on a
    scale whose rating and events disagree.

    Args:
        values: as `gpu.data.evidence` describes them: ratings, sums of events, or both.

    Returns:
        float32 (B,) each.
    """
    if calibration.values == "counts" or not have_events(values):
        x = of_one_kind(amounts(values), calibration)
        return np.maximum(x, 0), np.maximum(-x, 0)
    ratings, sums = unpacked(values)
    x, by_events = np.nan_to_num(of_one_kind(ratings, calibration)), of_events(sums, calibration)
    likes = np.maximum(x, 0) + np.maximum(by_events, 0)
    return likes, np.maximum(-x, 0) + np.maximum(-by_events, 0)


def of_events(sums: NDArray[np.float32], calibration: Calibration) -> NDArray[np.float32]:
    """α_e e of sums of events (B,) beside ratings on a scale, float32 (B,); 0 for 0."""
    counts = counted(np.asarray(sums, dtype=np.float64), calibration.event_scale, calibration.event_damped)
    return (calibration.event_weight * counts / calibration.event_typical).astype(np.float32)


def signals(values: NDArray[np.floating], calibration: Calibration) -> NDArray[np.float32]:
    """c⁺ − c⁻ of values (B,), float32 (B,): preference and confidence in one number x where one of the two is 0.

    x > 0 is a preference of 1 with confidence 1 + α·x. x < 0 is a preference of 0 with confidence 1 + α·|x|. x = 0
    counts as no rating.
    """
    likes, dislikes = evidence(values, calibration)
    return likes - dislikes


def entries_of(
    likes: NDArray[np.float32], dislikes: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """(x of all entries, float32 (M,); entries of each pair, int64 (B,)) of pairs with this `evidence`, (B,) each.

    A pair with both has two entries, of x and of −x. Their weighted squared errors sum up to that of the preference
    c⁺ / (c⁺ + c⁻) with the confidence of both, so solvers need not know. A pair with neither has none.
    """
    are_liked, are_disliked = likes > 0, dislikes > 0
    n_entries = are_liked.astype(np.int64) + are_disliked
    x = np.repeat(np.where(are_liked, likes, -dislikes), n_entries)
    have_two = n_entries == 2
    x[np.cumsum(n_entries)[have_two] - 1] = -dislikes[have_two]
    return x, n_entries


def of_one_kind(values: NDArray[np.floating], calibration: Calibration) -> NDArray[np.float32]:
    """The signals of ratings or counts (B,) alone, float32 (B,)."""
    low, high = calibration.scale
    signals = np.asarray(values, dtype=np.float64)
    if calibration.values == "ratings":
        share = (np.clip(signals, low, high) - calibration.middle) / (high - low)
        signals = np.where(share < 0, share - LEAST_SIGNAL, share + LEAST_SIGNAL)
    else:
        signals = np.maximum(signals, 0.0 if calibration.middle == NO_MIDDLE else -math.inf)
        signals = counted(signals, calibration.scale, calibration.is_damped)
    return (signals / calibration.typical).astype(np.float32)


def counted(counts: NDArray[np.float64], scale: tuple[float, float], is_damped: bool) -> NDArray[np.float64]:
    """`counts` (B,), damped and bounded, with their signs."""
    (low, high), sizes = scale, np.abs(counts)
    if is_damped:
        sizes = np.where(sizes > 0, 1 + np.log(np.maximum(sizes, low) / low), 0.0)
    return np.copysign(np.minimum(sizes, high), counts)


def signals_of(ratings: Ratings, calibration: Calibration) -> Ratings:
    """`ratings` with signals in place of their values, one entry or two a pair (`entries_of`), or none."""
    if calibration.values == "ratings" and have_events(ratings.by_user.values):
        users, items, values = ratings.coo()
        shape = ratings.n_users, ratings.n_items
        return Ratings.of_entries(
            users, items, *entries_of(*_in_pieces(values, calibration)), shape, ratings.user_keys, ratings.item_keys
        )
    sides = ratings.by_user, ratings.by_item
    signals = ratings.with_values(*(np.subtract(*_in_pieces(rows.values, calibration)) for rows in sides))
    counts = signals.by_user.values != 0
    return signals if counts.all() else signals.where(counts)


def of_signals(calibration: Calibration) -> Calibration:
    """`calibration` for a training whose values are signals already: they stay as they are."""
    return dataclasses.replace(calibration, values="counts", scale=(0.0, math.inf), is_damped=False, typical=1.0)


def _in_pieces(
    values: NDArray[np.float32], calibration: Calibration
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`evidence`, which needs several float64 numbers for each value, of `PIECE` values at a time."""
    likes, dislikes = np.empty((2, len(values)), dtype=np.float32)

    def of_piece(piece: slice) -> None:
        """Those of a piece."""
        likes[piece], dislikes[piece] = evidence(values[piece], calibration)

    by_threads(of_piece, len(values), PIECE)
    return likes, dislikes


def are_met(values: NDArray[np.floating], kind: Kind) -> NDArray[np.bool_]:
    """Which pairs a user has met, bool (B,): all that are rated, and those with a sum of counts or events above 0.

    A low rating says that the user has met the item too.
    """
    if kind == "counts":
        return np.asarray(amounts(np.asarray(values, dtype=np.float32)) > 0)
    ratings, sums = unpacked(np.asarray(values, dtype=np.float32))
    return ~np.isnan(ratings) | (sums > 0)


def preferences(values: NDArray[np.floating], calibration: Calibration) -> NDArray[np.float32]:
    """The x of ratings (B,) in EASE, float32 (B,): 1 for a like, `DISLIKED` for a dislike, the signal of a count.

    That of a dislike among counts is multiplied by −`DISLIKED`. Beside ratings on a scale, events of the same side add
    their signal. Where rating and events disagree, the stronger side has its x times its share of the `evidence`.
    """
    if calibration.values == "counts":
        x = signals(values, calibration)
        return np.where(x < 0, -DISLIKED * x, x)
    if not have_events(values):
        return np.where(are_likes(values, calibration.middle), np.float32(1), DISLIKED)
    ratings, sums = unpacked(values)
    likes, dislikes = evidence(values, calibration)
    by_events, are_rated = of_events(sums, calibration), ~np.isnan(ratings)
    liked = are_likes(ratings, calibration.middle)
    for_it = (are_rated & liked) + np.maximum(by_events, 0)
    against = (are_rated & ~liked) + np.maximum(-by_events, 0)
    share = likes / (likes + dislikes)
    x = np.where(
        are_likes(values, calibration.middle, calibration.lift), share * for_it, DISLIKED * (1 - share) * against
    )
    return x.astype(np.float32)
