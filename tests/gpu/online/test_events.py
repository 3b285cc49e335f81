from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.online import events as recent_keys
from gpu.online.events import NO_KEY, RecentKeys
from gpu.online.host.events import add_up

N_USERS = 3
event = st.tuples(st.integers(0, N_USERS - 1), st.sampled_from([NO_KEY, 1, -1, 2**32, 2**63 - 1, -(2**63), 7]))


def take(recent: RecentKeys, events: list[tuple[int, int]]) -> list[bool]:
    users, keys = np.array(events, dtype=np.int64).reshape(-1, 2).T
    return recent.take(users.astype(np.int32), np.ascontiguousarray(keys)).tolist()


@given(st.lists(st.lists(event, max_size=12), max_size=5), st.integers(1, 4))
def test_the_last_distinct_keys_of_each_user_are_known(batches: list[list[tuple[int, int]]], n_kept: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_keys, "N_KEPT", n_kept)
        recent, known = RecentKeys(), [deque[int](maxlen=n_kept) for _ in range(N_USERS)]
        recent.grow(N_USERS)
        for batch in batches:
            expected = []
            for user, key in batch:
                expected.append(key not in known[user])
                if expected[-1] and key != NO_KEY:
                    known[user].append(key)
            assert take(recent, batch) == expected


def test_keys_of_many_users_find_room_and_go_with_their_user() -> None:
    recent, n_users = RecentKeys(), 500
    recent.grow(n_users)
    events = [(user, key) for key in range(1, 40) for user in range(n_users)]
    assert all(take(recent, events))
    assert not any(take(recent, events))
    recent.drop_user(7)
    assert take(recent, [(7, 1), (8, 1), (7, 1)]) == [True, False, False]


def test_amounts_add_up_within_the_bound_in_order() -> None:
    sums, latest = np.array([np.nan, 4.0, np.nan], dtype=np.float32), np.array([-np.inf, 9.0, -np.inf])
    pairs, amounts = np.array([0, 1, 1, 0, 1]), np.array([0.5, 3.0, -2.0, 1.0, -20.0])
    found = add_up(pairs, amounts, np.array([5.0, 3.0, 4.0, 2.0, 10.0]), 5.0, sums, latest)
    np.testing.assert_array_equal(sums, np.array([1.5, -5.0, np.nan], dtype=np.float32))
    assert latest.tolist() == [5.0, 10.0, -np.inf]
    np.testing.assert_array_equal(found[0], np.array([np.nan, 4.0, 5.0, 0.5, 3.0], dtype=np.float32))
    assert found[1].tolist() == [-np.inf, 9.0, 9.0, 5.0, 9.0]
