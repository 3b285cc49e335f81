"""The names of the keys of the default data set in Redis."""

from service.settings.keyspace import DEFAULT

RATINGS, TRIMMED, REJECTED, COMMIT, LOST, VERIFIED, NEVER = (
    DEFAULT.ratings, DEFAULT.trimmed, DEFAULT.rejected, DEFAULT.commit, DEFAULT.lost, DEFAULT.verified, DEFAULT.never
)  # fmt: skip
