"""Ratings and events of a pair in one number, and what each pair says for and against an item."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpu
from gpu.als.params import AlsImplicitParams
from gpu.data.calibration import calibrate
from gpu.data.decay import weights_in
from gpu.data.evidence import amounts, merits, packed, unpacked
from gpu.data.host_evidence import merit
from gpu.data.rating_table import RatingTable
from gpu.data.ratings import are_likes
from gpu.data.refit_rules import learned_values
from gpu.data.signals import entries_of, evidence, preferences, signals
from gpu.online import prepare_online
from gpu.online.explain import shares
from gpu.online.reading import Reading

IMPLICIT = "als-implicit", "ease", "culsh-implicit"
NAN = np.float32(np.nan)
rating_values = st.one_of(st.just(float("nan")), st.floats(-1e6, 1e6, width=32))
sum_values = st.one_of(
    st.just(float("nan")), st.just(0.0), st.floats(2.0**-10, 1000, width=32), st.floats(-1000, -(2.0**-10), width=32)
)
pairs = st.lists(st.tuples(rating_values, sum_values), min_size=1, max_size=20)

# SHA-256 of x, or of what is a like, by algorithm: data of one kind keeps the bits that it had before events were
# evidence of their own.
DIGESTS = {
    "stars": ("1773d246ef33160d", "4f8671507aad2b28", "300d87a9033b6463"),
    "points": ("2e63a5435784823b", "2a19d92bc0321bd6", "7266b7fa6bc32277"),
    "thumbs": ("7cd1bed481cc5339", "7cd1bed481cc5339", "17cb33907a33a7db"),
    "counts": ("03fb0fc62ad47a00", "03fb0fc62ad47a00", "17cb33907a33a7db"),
    "dislikes": ("4c8d842516ee3311", "bc70a810269ef15c", "29b62ba0379ebf49"),
}


def world(kind: str) -> gpu.Ratings:
    users, items = np.nonzero((np.add.outer(7 * np.arange(60), 3 * np.arange(40)) % 5) > 1)
    steps = (users * 31 + items * 17) % 11
    values = {
        "stars": 1 + steps % 5,
        "points": steps * 2 - 10,
        "thumbs": steps % 2,
        "counts": 1 + steps % 3 + 4 * (steps == 10),
        "dislikes": np.where(steps == 3, -2, 1 + steps % 2),
    }[kind]
    return gpu.Ratings.from_coo(users, items, values.astype(np.float32))


def as_events(ratings: gpu.Ratings) -> gpu.Ratings:
    sides = (ratings.by_user.values, ratings.by_item.values)
    return ratings.with_values(*(packed(np.full_like(values, NAN), values) for values in sides))


def mixed(kind: str, sums: float = 1.0) -> gpu.Ratings:
    """Every third pair has no rating but events, and every fifth one has both."""
    ratings = world(kind)

    def beside(
        values: NDArray[np.float32], users: NDArray[np.integer], items: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        number = users * 7 + items
        have_events = (number % 3 == 0) | (number % 5 == 0)
        events = np.where(have_events, np.float32(sums), NAN)
        return packed(np.where(number % 3 == 0, NAN, values).astype(np.float32), events.astype(np.float32))

    users, items, values = ratings.coo()
    by_item = np.repeat(np.arange(ratings.n_items), ratings.by_item.lengths)
    return ratings.with_values(
        beside(values, users, items), beside(ratings.by_item.values, ratings.by_item.items, by_item)
    )


@pytest.mark.parametrize("algorithm", IMPLICIT)
@pytest.mark.parametrize("kind", DIGESTS)
def test_data_of_one_kind_keeps_its_bits(kind: str, algorithm: str) -> None:
    values = {"values": "counts"} if kind in ("counts", "dislikes") else {}
    ratings, params = world(kind), gpu.params_for(algorithm, values)
    for one in (ratings, as_events(ratings)) if values else (ratings,):
        known, given_values = calibrate(one, params), one.by_user.values
        if algorithm == "culsh-implicit":
            x: NDArray[np.generic] = are_likes(given_values, known.middle, known.lift)
        else:
            x = (signals if algorithm == "als-implicit" else preferences)(given_values, known)
        digest = hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]
        assert digest == DIGESTS[kind][IMPLICIT.index(algorithm)]


@given(pairs)
def test_a_number_keeps_ratings_and_sums(pairs: list[tuple[float, float]]) -> None:
    ratings, sums = (np.array(column, dtype=np.float32) for column in zip(*pairs, strict=True))
    numbers = packed(ratings, sums)
    found_ratings, found_sums = unpacked(numbers)
    told = np.nan_to_num(sums)
    have_both = ~np.isnan(ratings) & (told != 0)
    np.testing.assert_array_equal(found_ratings[~have_both], ratings[~have_both])
    np.testing.assert_array_equal(found_sums[~have_both], told[~have_both])
    np.testing.assert_allclose(found_ratings[have_both], ratings[have_both], rtol=2**-11, atol=1e-6)
    np.testing.assert_allclose(found_sums[have_both], told[have_both], rtol=2**-7)
    np.testing.assert_array_equal(np.isnan(numbers), np.isnan(ratings) & (told == 0))
    expected = np.where(np.isnan(found_ratings), 0, found_ratings) + found_sums
    np.testing.assert_array_equal(amounts(numbers), np.where(np.isnan(numbers), NAN, expected))


@pytest.mark.parametrize("stars", [1.0, 2.5, 5.0, -10.0, 0.0, 1024.0])
@pytest.mark.parametrize("events", [1.0, 3.0, 10.0, -2.0, 255.0, 1000.0])
def test_common_ratings_are_exact_beside_common_events(stars: float, events: float) -> None:
    numbers = packed(np.array([stars], dtype=np.float32), np.array([events], dtype=np.float32))
    assert [column.tolist() for column in unpacked(numbers)] == [[stars], [events]]


@given(pairs, st.floats(0, 100, width=32))
def test_the_merit_of_a_kernel_is_that_of_arrays(pairs: list[tuple[float, float]], lift: float) -> None:
    numbers = packed(*(np.array(column, dtype=np.float32) for column in zip(*pairs, strict=True)))
    ours = [merit(np.float32(one), np.float32(lift)) for one in numbers]
    np.testing.assert_allclose(np.array(ours, dtype=np.float32), merits(numbers, lift), rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("kind", ["stars", "points"])
def test_events_never_change_what_ratings_say(kind: str) -> None:
    stars, both = world(kind), mixed(kind)
    params = AlsImplicitParams()
    known, ratings = calibrate(both, params), unpacked(both.by_user.values)[0]
    assert known.values == "ratings"
    likes, dislikes = evidence(both.by_user.values, known)
    _, sums = unpacked(both.by_user.values)
    assert (likes[sums > 0] > 0).all()
    assert (dislikes[ratings < known.middle] > 0).all()
    assert (dislikes[~(ratings < known.middle)] == 0).all()
    alone = np.abs(signals(stars.by_user.values, known))
    rated = ~np.isnan(ratings) & (sums == 0)
    np.testing.assert_array_equal((likes + dislikes)[rated], alone[rated])
    both_sided = (likes > 0) & (dislikes > 0)
    assert both_sided.any()
    expected = known.event_weight * sums[both_sided] / known.event_typical
    np.testing.assert_allclose(likes[both_sided], expected, rtol=1e-6)


def test_one_event_of_any_type_does_not_change_the_kind_of_ratings() -> None:
    stars = world("stars")
    for events in ((1.0,), (1.0, 10.0), (-2.0,), (1.0, 3.0, 10.0, -2.0, 1000.0)):
        values = stars.by_user.values.copy()
        values[: len(events)] = packed(np.full(len(events), NAN), np.array(events, dtype=np.float32))
        known = calibrate(gpu.Ratings.from_coo(*stars.coo()[:2], values), AlsImplicitParams())
        assert (known.values, known.scale) == ("ratings", (1.0, 5.0))
        likes, dislikes = evidence(values[: len(events)], known)
        assert ((likes > 0) == (np.array(events) > 0)).all()
        assert ((dislikes > 0) == (np.array(events) < 0)).all()


def test_a_pair_with_both_sides_is_solved_like_its_preference_and_confidence() -> None:
    """Two entries have the weighted squares of the one pair, up to what does not depend on the score."""
    likes, dislikes = np.array([2.0, 0.5, 0, 3], dtype=np.float32), np.array([1.0, 0, 2, 0], dtype=np.float32)
    x, n_entries = entries_of(likes, dislikes)
    assert x.tolist() == [2.0, -1.0, 0.5, -2.0, 3.0]
    assert n_entries.tolist() == [2, 1, 1, 1]
    confidence, preference = 3.0, 2 / 3
    for score in (-0.5, 0.1, 0.9):
        squares = sum(abs(one) * ((one > 0) - score) ** 2 for one in x[:2])
        rest = confidence * preference * (1 - preference)
        assert squares == pytest.approx(confidence * (preference - score) ** 2 + rest)


@pytest.mark.parametrize("algorithm", IMPLICIT)
def test_views_are_likes_beside_stars_in_training_and_online(algorithm: str) -> None:
    """Users of even and odd taste; a user with views alone is listed what one with five stars is, not with one star."""
    small = {"ease": {}, "als-implicit": {"n_factors": 8, "n_epochs": 5}}
    params = gpu.params_for(
        algorithm, small.get(algorithm, {"n_factors": 8, "n_epochs": 8, "n_neighbors": 4, "n_bits": 256})
    )
    users, items = np.nonzero(np.add.outer(7 * np.arange(60), 3 * np.arange(40)) % 5)
    stars = np.where((users + items) % 2, 1, 5).astype(np.float32)
    viewed = users >= 50
    stays = ~viewed | (stars == 5)
    values = packed(np.where(viewed, NAN, stars).astype(np.float32), np.where(viewed, np.float32(1), NAN))
    model = gpu.fit(gpu.Ratings.from_coo(users[stays], items[stays], values[stays], (60, 40)), params)
    assert model.calibration.values == "ratings"
    scores = model.user_factors @ model.item_factors.T + model.item_bias
    if algorithm == "ease":
        rows = np.zeros((60, 40), dtype=np.float32)
        rows[users[stays], items[stays]] = preferences(values[stays], model.calibration)
        slots = model.item_slots
        scores = rows @ model.item_weights[np.ix_(slots, slots)]
    for user in range(50, 60):
        even = scores[user, user % 2 :: 2].mean()
        assert even > scores[user, 1 - user % 2 :: 2].mean()


def test_learned_values_of_a_model_of_ratings_have_two_entries_where_both_disagree() -> None:
    model = gpu.fit(world("stars"), AlsImplicitParams(n_factors=4, n_epochs=1))  # before the first event
    ratings, sums = np.array([1, 5, NAN, 1, NAN], np.float32), np.array([10, 10, 10, NAN, -2], np.float32)
    x, n_entries = learned_values(model, packed(ratings, sums))
    assert n_entries.tolist() == [2, 1, 1, 1, 1]
    purchase = 1 + np.log(np.float32(10))  # the default scale: a view is 1
    assert x[0] == pytest.approx(purchase)
    assert x[1] == x[4] < 0
    assert x[3] == pytest.approx(purchase)
    assert x[2] == pytest.approx(purchase + signals(np.array([5], np.float32), model.calibration)[0])
    assert x[5] == pytest.approx(-(1 + np.log(2)))


@pytest.mark.parametrize("half_life_days", [None, 30.0])
def test_a_trained_user_is_the_row_that_solves_the_equation(half_life_days: float | None) -> None:
    """The confidence and preference of every pair, in a dense system; fold-ins and explanations solve the same one."""
    ratings = mixed("stars", 3.0)
    params = AlsImplicitParams(n_factors=6, n_epochs=4, solver="cholesky", half_life_days=half_life_days)
    seconds = np.linspace(-1e7, 0, len(ratings))
    model = gpu.fit(ratings, params, times=gpu.Times(seconds, 0.0))
    known, factors = model.calibration, model.item_factors.astype(np.float64)
    starts, lengths, items, values = ratings.by_user
    weights = weights_in(model, seconds)
    users, columns = np.arange(60, dtype=np.uint64), np.arange(40, dtype=np.uint64)
    ready = prepare_online(model, RatingTable(60, 40), users, columns, gpu.HOST)
    online = ready.follow(users, columns, None, None)
    assert online.settle(None)
    n_both = 0
    for user in range(0, 60, 6):
        own = slice(starts[user], starts[user] + lengths[user])
        likes, dislikes = (one.astype(np.float64) for one in evidence(values[own], known))
        own_weights = None if weights is None else weights[own]
        by_age = 1.0 if own_weights is None else own_weights.astype(np.float64)
        both = (likes > 0) & (dislikes > 0)
        n_both += int(np.count_nonzero(both))
        z, wanted = factors[items[own]], known.alpha * likes * by_age
        matrix = factors.T @ factors + (z.T * (wanted + known.alpha * dislikes * by_age)) @ z
        n_entries = lengths[user] + np.count_nonzero(both)
        matrix += known.regularization * (n_entries + 40 / known.alpha) * np.eye(6)
        expected = np.linalg.solve(matrix, z.T @ np.where(likes > 0, 1 + wanted, 0))
        np.testing.assert_allclose(model.user_factors[user], expected, rtol=2e-3, atol=1e-4)
        rated = items[own], values[own]
        folded = online.fold_in(*rated, Reading(np.uint64(1), None, own_weights))
        np.testing.assert_allclose(folded.factors[0], expected, rtol=1e-4, atol=1e-6)
        parts = shares(model, *rated, np.array([3]), online.gram, own_weights)
        assert parts.sum() == pytest.approx(factors[3] @ expected, rel=1e-4)
    assert n_both
