"""A planted world: users of the first taste like even items, the others odd ones."""

from service.storage.events import Entry, RatingEvent, StreamId

N_USERS, N_ITEMS = 60, 40
SMALL = {"n_factors": 8, "n_epochs": 5, "n_neighbors": 4, "n_bits": 256}


def liking(user: int, item: int) -> float:
    return 5.0 if (user + item) % 2 == 0 else 1.0


def events(n_users: int = N_USERS, n_items: int = N_ITEMS) -> list[RatingEvent]:
    """Four fifths of all pairs."""
    return [
        RatingEvent(f"u{user}", f"i{item}", liking(user, item), 100.0 + user)
        for user in range(n_users)
        for item in range(n_items)
        if (7 * user + 3 * item) % 5
    ]


def entries(first_ms: int = 1000, n_users: int = N_USERS, n_items: int = N_ITEMS) -> list[Entry]:
    """The same in entries of 100 ratings, one a millisecond."""
    ratings = events(n_users, n_items)
    parts = [ratings[start : start + 100] for start in range(0, len(ratings), 100)]
    return [Entry(StreamId(first_ms + n, 0), "rating", part) for n, part in enumerate(parts)]
