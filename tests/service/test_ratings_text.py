from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRatingsFile
from service.ratings_file import RatingsFile, read

ids = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ratings.csv"


def written(path: Path, content: str | bytes, **how: bool) -> RatingsFile:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, **how)


@pytest.mark.parametrize(
    "content",
    [
        "a,b,1\nc,d,2.5\n",
        "a,b,1\nc,d,2.5",
        "a,b,1\r\nc,d,2.5\r\n",
        "user,item,rating\na,b,1\nc,d,2.5\n",
        "\nuserId,movieId,rating\n\na,b,1\n\nc,d,2.5\n",
        "\ufeffuser,item,rating\na,b,1\nc,d,2.5\n",
        'a,"b",1\n"c",d, 2.5\n',
        "a\tb\t1\nc\td\t2.5\n",
        "a::b::1\nc::d::2.5\n",
    ],
)
def test_formats(path: Path, content: str) -> None:
    found = written(path, content)
    assert (found.users, found.items, found.values.tolist()) == (["a", "c"], ["b", "d"], [1.0, 2.5])
    assert found.timestamps is None
    assert found.bad == []


def test_timestamps(path: Path) -> None:
    found = written(path, "user::item::rating::timestamp\n1::2::3::978300760\n")
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [978300760.0]
    assert found.users == ["1"]


@given(rows=st.lists(st.tuples(ids, ids, st.integers(-5, 5)), min_size=1, max_size=20))
def test_ids_stay_strings_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("files") / "r.csv"
    quoted = [
        ",".join(['"' + u.replace('"', '""') + '"', '"' + i.replace('"', '""') + '"', str(r)]) for u, i, r in rows
    ]
    found = written(path, "user,item,rating\n" + "\n".join(quoted))
    assert list(zip(found.users, found.items, found.values.tolist(), strict=True)) == rows


def test_leading_zeros_and_words_that_mean_nothing_are_kept(path: Path) -> None:
    found = written(path, "007,null,1\nNA,1.0,2\n")
    assert (found.users, found.items) == (["007", "NA"], ["null", "1.0"])


def test_a_header_alone_is_no_rating(path: Path) -> None:
    assert written(path, "user,item,rating\n").users == []


BAD = [
    ("c,d,x", "finite number as rating, got 'x'"),
    ("c,d,nan", "finite number as rating"),
    ("c,d,inf", "finite number as rating"),
    ("c,d,", "finite number as rating, got ''"),
    ("c,d,1_0", "finite number as rating"),
    ("c,d,-1e39", "expected at most 3.4e+38 as rating, got '-1e39'"),
    ("c,d", "expected 3 columns, got 2"),
    ("c,d,1,2", "expected 3 columns, got 4"),
    (",d,1", "1 to 256 bytes, got 0"),
    ("c," + "é" * 129 + ",1", "1 to 256 bytes, got 258"),
    (b"\xff,d,1", "utf-8"),
    ('"c,d,1', "unexpected end"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_bad_line_is_named_or_skipped(path: Path, line: str | bytes, reason: str) -> None:
    raw = line.encode() if isinstance(line, str) else line
    content = b"user,item,rating\na,b,1\n\n" + raw + b"\ne,f,3\n"
    with pytest.raises(InvalidRatingsFile, match=r"Invalid line 4 of .*ratings.csv: ") as caught:
        written(path, content)
    assert reason in str(caught.value)
    found = written(path, content, skip_bad=True)
    assert (found.users, found.values.tolist()) == (["a", "e"], [1.0, 3.0])
    assert [bad.number for bad in found.bad] == [4]


@pytest.mark.parametrize("content", ["", "a,b\n", "just words\n", "a,b,1,2,3\n", b"\xff\xfe\n"])
def test_files_of_another_kind(path: Path, content: str | bytes) -> None:
    with pytest.raises(InvalidRatingsFile, match="line 1"):
        written(path, content)


@pytest.mark.parametrize(
    "header", ["item,user,rating", "rating,userId,item", "user,item,timestamp,rating", " Item ,x,y"]
)
def test_columns_in_another_order_are_not_taken_for_each_other(path: Path, header: str) -> None:
    ratings = ",".join("123"[: header.count(",")])
    with pytest.raises(InvalidRatingsFile, match="expected user, item, rating"):
        written(path, f"{header}\na,{ratings}\n")


@pytest.mark.parametrize("rating", ["", "nan", "-inf", "1e400", "1_0"])
def test_a_first_line_without_a_usable_number_is_no_header(path: Path, rating: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=r"Invalid line 1 of .*: expected a finite number as rating"):
        written(path, f"a,b,{rating}\nc,d,2\n")
