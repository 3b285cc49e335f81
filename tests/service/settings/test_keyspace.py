"""The names of keys in Redis: old ones for the default data set, so that its stream goes on; none twice."""

from service.settings.keyspace import DEFAULT, Keyspace


def names(keys: Keyspace) -> list[str]:
    return [keys.ratings, keys.trimmed, keys.rejected, keys.commit, keys.never, keys.webhooks, keys.jobs]


def test_the_default_data_set_has_the_keys_of_older_versions():
    assert Keyspace.of("") == DEFAULT
    assert names(DEFAULT) == [
        f"nearfield:{name}" for name in ("ratings", "trimmed", "rejected", "commit", "never", "webhooks", "job")
    ]


def test_no_key_belongs_to_two_data_sets():
    of_all = [names(Keyspace.of(name)) for name in ("", "job", "jobs", "d", "shop", "shop-two", "ratings")]
    every = [key for keys in of_all for key in keys]
    assert len(set(every)) == len(every)
    jobs = [keys[-1] for keys in of_all]  # scripts make further keys from these
    assert not [key for key in every for job in jobs if key != job and key.startswith((f"{job}:", f"{job}s"))]
