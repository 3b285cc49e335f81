"""The synthetic catalog: reproducible, labeled, and with tastes that can be found again."""

import numpy as np

from service.cli import synthetic
from service.cli.files.ratings_file import read


def test_equal_seeds_give_equal_ratings():
    first, second, other = synthetic.planted(1, 50, 40), synthetic.planted(1, 50, 40), synthetic.planted(2, 50, 40)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first.ratings[:100], other.ratings[:100])


def test_ratings_are_distinct_pairs_on_the_scale():
    drawn = synthetic.planted(0, 200, 100)
    assert len(np.unique(drawn.viewers * 100 + drawn.items)) == len(drawn.items)
    assert set(np.unique(drawn.ratings)) <= set(np.arange(1, 11) / 2)
    assert np.bincount(drawn.viewers).min() >= synthetic.RATINGS_PER_VIEWER[0]


def test_every_item_has_its_genre_as_a_tag():
    drawn = synthetic.planted(0, 30, 20)
    items = drawn.described_items()
    assert [one["item"] for one in items] == [drawn.item_id(item) for item in range(20)]
    assert all(one["tags"]["genre"][0] in one["item"] for one in items)


def test_items_of_the_demo_have_different_titles():
    titles = [one["title"] for one in synthetic.planted().described_items()]
    assert len(set(titles)) == synthetic.N_ITEMS
    assert "The Quiet Harbor (2004)" in titles


def test_planted_taste_shows_in_what_is_rated_and_how():
    drawn = synthetic.planted()
    loved = drawn.taste[drawn.viewers].argmax(axis=1) == drawn.genre[drawn.items]
    assert drawn.ratings[loved].mean() > drawn.ratings[~loved].mean() + 0.5
    assert loved.mean() > 2 / len(synthetic.GENRES)


def test_a_written_catalog_reads_back_and_every_id_says_synthetic(tmp_path):
    drawn = synthetic.planted(0, 30, 20)
    synthetic.write(tmp_path / "synthetic.csv", drawn)
    file = read(tmp_path / "synthetic.csv")
    assert file.values.tolist() == drawn.ratings.tolist()
    assert all(name.startswith("synthetic-") for name in file.users + file.items)
    assert file.items[0] == drawn.item_id(drawn.items[0])
