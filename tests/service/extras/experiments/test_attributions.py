"""Events of experiments, in any grouping, through the stream or the log, against a plain count; and arms of users."""

import base64

import msgspec
import numpy as np
import pytest

from service.base.recommendation_ids import RecommendationIds, ShownList
from service.base.signing import Signer
from service.engine.state.history import History
from service.extras.experiments.attributions import Attributions
from service.extras.experiments.experiments import arm_of
from service.extras.experiments.queries import KIND
from service.storage.documents import Arm, Document, Experiment
from service.storage.events import Entry, Merge, RatingEvent, StreamId, TypedEvent
from service.storage.log.rating_log import RatingLog
from tests.service.logs import commit

IDS = RecommendationIds(Signer(lambda: bytes(32)))
USERS, ARMS, NAMES, TYPES = list("uvwxyz"), ("als", "home"), ("one", "other"), ("view", "cart", "not named")
Counts = dict[tuple[str, str, str], dict[str, int]]  # events of users, by experiment, arm and type


def experiment(n: int, name: str, *, is_put: bool = True) -> Entry:
    body = msgspec.json.encode(Experiment([Arm(arm, 50.0) for arm in ARMS], "salt")).decode() if is_put else None
    return Entry(StreamId(n, 0), "document", document=Document(KIND, name, body))


def drawn(seed: int) -> list[Entry]:
    """Experiments that begin, end and begin anew; events, some repeated, with ids of present and past ones."""
    rng = np.random.default_rng(seed)
    put: list[tuple[str, str]] = []  # all that ever was put: name and position
    entries = []
    for n in range(1, 200):
        kind = rng.choice(
            ["event", "rating", "experiment", "end", "forget", "merge"], p=[0.8, 0.08, 0.04, 0.02, 0.03, 0.03]
        )
        name, (user, into) = NAMES[rng.integers(2)], rng.permutation(USERS)[:2].tolist()
        if kind in ("experiment", "end") or n == 1:
            entries.append(experiment(n, name, is_put=kind != "end"))
            put.append((name, f"{n}-0"))
        elif kind == "forget":
            entries.append(Entry(StreamId(n, 0), "forget", subject=user))
        elif kind == "merge":
            entries.append(Entry(StreamId(n, 0), "merge", merge=Merge(user, into)))
        elif kind == "rating":
            entries.append(Entry(StreamId(n, 0), "rating", [RatingEvent(user, "i", 3.0, 1.0)]))
        else:
            entries.append(Entry(StreamId(n, 0), "event", events=[event(rng, put) for _ in range(rng.integers(1, 5))]))
    return entries


def event(rng: np.random.Generator, put: list[tuple[str, str]]) -> TypedEvent:
    user, event_id = USERS[rng.integers(len(USERS))], None if rng.random() < 0.7 else f"e{rng.integers(9)}"
    shown = None
    if rng.random() < 0.8:
        name, position = put[-1 - int(rng.integers(min(len(put), 3)))]
        shown = IDS.of(ShownList(name, position, ARMS[rng.integers(2)], "als-1", "1-0"), user)
    return TypedEvent(user, f"i{rng.integers(5)}", TYPES[rng.integers(3)], 1.0, 1.0, event_id, shown)


def counted(entries: list[Entry]) -> Counts:
    """The events of each user, by the plainest means."""
    present: dict[str, str] = {}
    have_sent: dict[str, set[str]] = {}
    counts: Counts = {}
    for entry in entries:
        if entry.document is not None:
            name = entry.document.name
            counts = {key: users for key, users in counts.items() if key[0] != name}
            present[name] = str(entry.id) if entry.document.body else ""
        for one in entry.events:
            known = have_sent.setdefault(one.user, set())
            is_first = one.event_id is None or one.event_id not in known
            known |= {one.event_id} if one.event_id else set()
            shown = one.recommendation_id and msgspec.json.decode(raw(one.recommendation_id))
            if is_first and shown and present.get(shown[0]) == shown[1]:
                users = counts.setdefault((shown[0], shown[2], one.type), {})
                users[one.user] = users.get(one.user, 0) + 1
        if entry.merge is not None:
            user, into = entry.merge.user, entry.merge.into
            have_sent.setdefault(into, set()).update(have_sent.get(user, ()))
            for users in counts.values():
                users[into] = users.get(into, 0) + users.get(user, 0)
        gone = entry.subject if entry.merge is None else entry.merge.user
        if gone is not None:
            have_sent.pop(gone, None)
            for users in counts.values():
                users.pop(gone, None)
    return counts


def raw(recommendation_id: str) -> bytes:
    text = recommendation_id.partition(".")[0]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Counting(History):
    """A history with attributions."""

    def __init__(self) -> None:
        super().__init__()
        self.attributions = Attributions(self.documents.position)
        self.observers.append(self.attributions)


def reported(history: Counting) -> dict[tuple[str, str], tuple[int, dict[str, tuple[int, int]]]]:
    found = {(name, arm): history.attributions.of(name, arm) for name in NAMES for arm in ARMS}
    return {key: (users, {name: one for name, one in types.items() if one[0]}) for key, (users, types) in found.items()}


def expected(counts: Counts) -> dict[tuple[str, str], tuple[int, dict[str, tuple[int, int]]]]:
    found = {}
    for name in NAMES:
        for arm in ARMS:
            types = {key[2]: users for key, users in counts.items() if key[:2] == (name, arm)}
            users = {user for one in types.values() for user, n in one.items() if n}
            shown = {
                of: (sum(one.values()), sum(n > 0 for n in one.values()))
                for of, one in types.items()
                if sum(one.values())
            }
            found[name, arm] = len(users), shown
    return found


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_a_plain_count(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    entries = drawn(seed)
    single, grouped, loaded = Counting(), Counting(), Counting()
    most = 0
    for n, entry in enumerate(entries, 1):
        single.apply([entry])
        assert reported(single) == expected(counted(entries[:n])), entry
        most = max(most, sum(one[0] for _, types in reported(single).values() for one in types.values()))
    assert most > 20
    for start in range(0, len(entries), 7):
        grouped.apply(entries[start : start + 7])
    log = RatingLog(tmp_path_factory.mktemp("log"))
    commit(log, entries)
    loaded.load(log)
    assert reported(grouped) == reported(loaded) == reported(single)


def test_shares_of_users_are_those_of_the_arms() -> None:
    """An arm is a function of salt and user: other salts divide anew, and a share of 0 gets nobody."""
    arms = [Arm("a", 70.0), Arm("b", 0.0), Arm("c", 30.0)]
    of_salt = [[arm_of(Experiment(arms, salt), f"u{n}") for n in range(20_000)] for salt in ("one", "other")]
    for drawn_arms in of_salt:
        assert abs(drawn_arms.count("a") / 20_000 - 0.7) < 0.02  # six standard deviations
        assert drawn_arms.count("b") == 0
    both = sum(one == other for one, other in zip(*of_salt, strict=True)) / 20_000
    assert abs(both - (0.7**2 + 0.3**2)) < 0.02
    near = [
        [arm_of(Experiment(arms, salt), f"{rest}{n}") for n in range(100)] for salt, rest in (("1", "2"), ("12", ""))
    ]
    assert near[0] != near[1]  # where the salt ends matters
