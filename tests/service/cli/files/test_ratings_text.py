from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli.files.doubtful_ids import checked_id
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_file import RatingsFile, read


def is_an_id(text: str) -> bool:
    try:
        return bool(checked_id(text))
    except ValueError:
        return False


ids = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12).filter(is_an_id)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ratings.csv"


def written(path: Path, content: str | bytes, **how: Any) -> RatingsFile:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, How.of(**how))


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
    places = {(user, item): n for n, (user, item, _) in enumerate(rows)}  # the last one of each pair
    assert list(zip(found.users, found.items, found.values.tolist(), strict=True)) == [
        rows[n] for n in sorted(places.values())
    ]


def test_ids_are_no_numbers(path: Path) -> None:
    found = written(path, "007,1e10,1\n7,1.0,2\n")
    assert (found.users, found.items) == (["007", "7"], ["1e10", "1.0"])


def test_a_header_alone_is_no_rating(path: Path) -> None:
    assert written(path, "user,item,rating\n").users == []


BAD = [
    ("c,d,x", "finite number as rating, got 'x'"),
    ("c,d,1\u00a0000", "finite number as rating, got"),  # Arrow reads ASCII digits alone
    ("c,d,\u00a05", "finite number as rating, got"),
    ("c,d,\uff15", "finite number as rating, got"),
    ("c,d,nan", "finite number as rating"),
    ("c,d,inf", "finite number as rating"),
    ("c,d,", "finite number as rating, got ''"),
    ("c,d,1_0", "finite number as rating"),
    ("c,d,-1e39", "expected at most 3.4e+38 as rating, got '-1e39'"),
    ("c,d", "expected 3 columns, got 2"),
    ("c,d,1,2", "expected 3 columns, got 4"),
    (",d,1", "1 to 256 bytes, got 0"),
    ("c," + "é" * 129 + ",1", "1 to 256 bytes, got 258"),
    (b"\xff,d,1", "expected text in UTF-8, got the byte 0xff"),
    ('"c,d,1', "expected a closing quote in the same line, got none"),
    ('c,d,"1', "expected a closing quote in the same line, got none"),
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


@pytest.mark.parametrize(
    "content", ["", "just words\n", "a,b,1,2,3\n", b"\xff\xff\n", "a;b;4,5\n", "a;Godfather, The;4\n", "a|b|4,5\n"]
)
def test_files_of_another_kind(path: Path, content: str | bytes) -> None:
    with pytest.raises(InvalidRatingsFile, match="line 1"):
        written(path, content)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("item,user,rating", "i,u,4"),
        ("rating,userId,item", "4,u,i"),
        ("user,item,timestamp,rating", "u,i,12,4"),
        (",movieId,title,Rating,user_id", '0,i,"a, b",4,u'),
        ("user_id:token\titem_id:token\trating:float\ttimestamp:float", "u\ti\t4\t12"),
        ("reviewerID,asin,overall,unixReviewTime,summary", "u,i,4,12,good"),
        ("user,item,rating,a,b,c", "u,i,4,x,y,z"),
    ],
)
def test_columns_are_taken_by_their_names(path: Path, header: str, line: str) -> None:
    found = written(path, f"{header}\n{line}\n")
    assert (found.users, found.items, found.values.tolist()) == (["u"], ["i"], [4.0])
    assert (found.timestamps is None) == ("12" not in line)
    if found.timestamps is not None:
        assert found.timestamps.tolist() == [12.0]


def test_which_column_is_what_is_told(path: Path) -> None:
    found = written(path, "Rating,movieId,title,userId\n4,i,x,u\n")
    assert found.columns == (
        "columns: user = userId, item = movieId, rating = Rating; not used: title; text in UTF-8 with commas between,"
        " a header in line 1, 2 lines; ratings from 4 to 4; the first: user u, item i, rating 4"
    )
    assert written(path, "u\ti\t4\n").columns == (
        "columns: user = column 1, item = column 2, rating = column 3; text in UTF-8 with tabs between, no header,"
        " 1 lines; ratings from 4 to 4; the first: user u, item i, rating 4"
    )


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("user,item,mine", "Invalid header of .*: expected columns user, item and rating, found no rating among user"),
        ("score,thing,user", "found no item among"),
        ("user,item,rating,User", "expected one column user, got several among user, item, rating, User"),
    ],
)
def test_a_header_that_lacks_a_column_is_refused(path: Path, header: str, complaint: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=complaint):
        written(path, f"{header}\na,b,1\n")


@pytest.mark.parametrize("first", ["u1,i1,five", "Item 1,x,y", "user1,x,y", "u1,i1,5 stars"])
def test_a_bad_first_line_is_no_header(path: Path, first: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=r"Invalid line 1 of .*: expected a finite number.*; a header would"):
        written(path, f"{first}\na,b,1\n")
    found = written(path, f"{first}\na,b,1\n", skip_bad=True)
    assert [bad.number for bad in found.bad] == [1]


@pytest.mark.parametrize("line", [1, 40_000, 349_990, 399_999, 400_000])
def test_a_quoted_field_that_never_closes_is_refused_with_its_line(path: Path, line: int) -> None:
    lines = [b"user-%d,item-%d,3" % (n // 80, n % 80) for n in range(400_000)]
    lines[line - 1] = b'"user-1,item-1,3'
    with pytest.raises(InvalidRatingsFile, match=rf"Invalid line {line} of .*: expected a closing quote"):
        written(path, b"\n".join(lines))
    assert len(written(path, b"\n".join(lines), skip_bad=True).values) == 399_999


def test_timestamps_in_milliseconds_are_refused(path: Path) -> None:
    for content, line in (("a,b,1,1700000000000\n", 1), ("user,time,item,rating\na,5,b,1\na,1.7e12,c,1\n", 3)):
        with pytest.raises(
            InvalidRatingsFile, match=rf"Invalid line {line} of .*expected Unix seconds, .*milliseconds"
        ):
            written(path, content)


@pytest.mark.parametrize("rating", ["", "nan", "-inf", "1e400", "1_0"])
def test_a_first_line_without_a_usable_number_is_no_header(path: Path, rating: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=r"Invalid line 1 of .*: expected a finite number as rating"):
        written(path, f"a,b,{rating}\nc,d,2\n")


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("a,b\nc,d\n", "columns: user = column 1, item = column 2"),
        ("a\tb\r\nc\td\r\n", "columns: user = column 1, item = column 2"),
        ("movieId,userId\nb,a\nd,c\n", "columns: user = userId, item = movieId"),
        ("\ufeffuser_id,item_id\na,b\nc,d\n", "columns: user = user_id, item = item_id"),
        ("user,item,timestamp\na,b,5\nc,d,6\n", "columns: user = user, item = item, timestamp = timestamp"),
        (",user,item\n0,a,b\n1,c,d\n", "columns: user = user, item = item"),
    ],
)
def test_without_ratings_every_pair_counts_one(path: Path, content: str, columns: str) -> None:
    found = written(path, content)
    assert (found.users, found.items, found.values.tolist()) == (["a", "c"], ["b", "d"], [1.0, 1.0])
    assert found.columns.startswith(columns + "; no ratings: every pair counts 1; text in UTF-8 with ")
    assert ("; times from 1970-01-01 to 1970-01-01; " in found.columns) == ("timestamp" in columns)


def test_days_show_times_that_were_meant_otherwise(path: Path) -> None:
    found = written(path, "user,item,rating,date\na,b,5,20231114\na,c,5,-1e11\n")
    assert "; times from -1199-02-15 to 1970-08-23; " in found.columns


TIMES = [("2023-11-14T22:13:20Z", 1.7e9), ("2023-11-14 23:13:20+01:00", 1.7e9), ("1700000000", 1.7e9),
         ("2023-11-14", 1699920000.0), (" 12.5", 12.5), ("-1e3", -1000.0)]  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("times", [TIMES[:1], TIMES, TIMES[::-1]])
def test_timestamps_may_be_dates_and_datetimes(path: Path, times: list[tuple[str, float]], end: str) -> None:
    lines = (f"i{n},{text},u,4{end}" for n, (text, _) in enumerate(times))
    found = written(path, f"item,date,user,rating{end}" + "".join(lines))
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [seconds for _, seconds in times]


@pytest.mark.parametrize("time", ["soon", "2023-13-01", "1.2.3", "nan", "14.11.2023"])
def test_a_time_that_cannot_be_read_is_named_by_its_line(path: Path, time: str) -> None:
    content = f"a::b::1::2023-11-14\na::c::1::{time}\na::d::1::5\n"
    with pytest.raises(InvalidRatingsFile, match=rf"Invalid line 2 of .*: expected Unix seconds, or a .*got {time!r}"):
        written(path, content)
    assert written(path, content, skip_bad=True).items == ["b", "d"]
