"""Files that can be understood in several ways: refused with the option that decides, or read as it fits alone."""

import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import io, sparse

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_file import RatingsFile, newest_of_each_pair, read
from service.settings.errors import InvalidSetting

Rows = list[tuple[str, str, float]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ratings.csv"


def written(path: Path, content: str | bytes, **how: Any) -> RatingsFile:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, How.of(**how))


def rows(file: RatingsFile) -> Rows:
    return list(zip(file.users, file.items, file.values.tolist(), strict=True))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("u1,Foo::Bar,5\nu2,Foo::Baz,3\n", [("u1", "Foo::Bar", 5), ("u2", "Foo::Baz", 3)]),
        ("u1,Foo::Bar::Baz,5\n", [("u1", "Foo::Bar::Baz", 5)]),
        ("arn:aws:iam::123:user/a,i1,5\n", [("arn:aws:iam::123:user/a", "i1", 5)]),
        ("2001:db8::1\tfe80::2\t5\t1700000000\n", [("2001:db8::1", "fe80::2", 5)]),
        ("user,item,rating\na::b,c::d,5\n", [("a::b", "c::d", 5)]),
        ("a::1,b::2,5\nc::3,d::4,1\n", [("a::1", "b::2", 5), ("c::3", "d::4", 1)]),
        ("1::1193::5::978300760\n1::661::3::978302109\n", [("1", "1193", 5), ("1", "661", 3)]),
        ("1::Toy Story, The::5\n1::Heat::3\n", [("1", "Toy Story, The", 5), ("1", "Heat", 3)]),
        ("u1,sku|red|xl|eu,5\nu2,sku|blue|m|us,3\n", [("u1", "sku|red|xl|eu", 5), ("u2", "sku|blue|m|us", 3)]),
        ("u1,a;b;c,5\nu2,d;e;f,3\n", [("u1", "a;b;c", 5), ("u2", "d;e;f", 3)]),
        ("a,b\tc\t5\nd,e\tf\t4\n", [("a,b", "c", 5), ("d,e", "f", 4)]),
        ("New York,Big Apple,5\nOld York,Big Pear,4\n", [("New York", "Big Apple", 5), ("Old York", "Big Pear", 4)]),
        ('u1,"a,b",5\nu2,"c::d",4\n', [("u1", "a,b", 5), ("u2", "c::d", 4)]),
    ],
)
def test_the_separator_is_what_splits_every_line_sensibly(path: Path, content: str, expected: Rows) -> None:
    assert rows(written(path, content)) == expected


def test_lines_behind_the_first_ones_decide_too(path: Path) -> None:
    lines = [f"u{n},Foo::Bar{n}" for n in range(20_000)]
    lines[10_000:] = [f"u{n},Bar{n}" for n in range(10_000, 20_000)]
    assert written(path, "\n".join(lines)).items[0] == "Foo::Bar0"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("u1,Foo::Bar\nu2,Foo::Baz\n", "--delimiter , or --delimiter ::"),
        ("user::1,item::2\nuser::3,item::4\n", "--delimiter :: or --delimiter ,"),
        ("a\tb,c\nd\te,f\n", "--delimiter , or --delimiter tab"),
        ("a;b;4,5\n", "--delimiter ';' or --delimiter ,"),
        ("a|b|4\n", "--delimiter '|'"),
        ("1::2::4,5\n3::4::1,5\n", "--delimiter :: or --delimiter ,"),
        ('"User-ID";"ISBN";"Book-Rating"\n"1";"2";"0"\n', "--delimiter ';'"),
        ("0 1 5\n1 2 3\n", "--delimiter ' '"),
    ],
)
def test_separators_in_doubt_are_refused_with_the_option(path: Path, content: str, options: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=r"Invalid .*ratings.csv: expected") as caught:
        written(path, content)
    assert str(caught.value).lower().rstrip().endswith(f"choose by {options}")


@pytest.mark.parametrize(
    ("content", "delimiter", "expected"),
    [
        ("u1,Foo::Bar\nu2,Foo::Baz\n", ",", [("u1", "Foo::Bar", 1), ("u2", "Foo::Baz", 1)]),
        ("u1,Foo::Bar\nu2,Foo::Baz\n", "::", [("u1,Foo", "Bar", 1), ("u2,Foo", "Baz", 1)]),
        ('"User-ID";"ISBN";"Book-Rating"\n"1";"02";"0"\n', ";", [("1", "02", 0)]),
        ("a|b|4\n", "|", [("a", "b", 4)]),
        ("a\tb,c\nd\te,f\n", "tab", [("a", "b,c", 1), ("d", "e,f", 1)]),
        ("0 1 5\n", " ", [("0", "1", 5)]),
    ],
)
def test_the_caller_may_choose_the_separator(path: Path, content: str, delimiter: str, expected: Rows) -> None:
    assert rows(written(path, content, delimiter=delimiter)) == expected


@pytest.mark.parametrize("text", ["", ",,", "a", "5", '"', "\n", "é"])
def test_what_cannot_separate_is_refused(path: Path, text: str) -> None:
    with pytest.raises(InvalidSetting, match="Invalid delimiter: expected one character"):
        written(path, "a,b,1\n", delimiter=text)


@pytest.mark.parametrize(
    "header",
    ["type,user,item,value", "feedback_type,user_id,item_id,value,time_stamp", "timestamp,visitorid,event,itemid",
     "USER_ID,ITEM_ID,TIMESTAMP,EVENT_TYPE,EVENT_VALUE", "user,item,action,rating", "user,item,Behavior Type"],
)  # fmt: skip
def test_events_are_no_ratings(path: Path, header: str) -> None:
    cells = ",".join(["1"] * len(header.split(",")))
    with pytest.raises(InvalidRatingsFile, match=r"got events: the column .* tells their type. Post them to /events"):
        written(path, f"{header}\n{cells}\n")
    lines = ['{"user": "a", "item": "b", "rating": 1}', '{"user": "a", "item": "c", "rating": 1, "type": "dislike"}']
    with pytest.raises(InvalidRatingsFile, match=r"line 2 .* got also type \(type of an event\)"):
        written(path.with_suffix(".jsonl"), "\n".join(lines))
    with pytest.raises(InvalidRatingsFile, match="got events: the column type"):
        written(path.with_suffix(".jsonl"), lines[1])


def test_the_caller_may_say_that_a_column_of_types_means_nothing(path: Path) -> None:
    found = written(path, "user,item,type,value\na,b,film,3\n", columns="user=user,item=item,rating=value")
    assert (rows(found), "not used: type" in found.columns) == ([("a", "b", 3.0)], True)


@pytest.mark.parametrize(
    ("header", "line", "expected"),
    [
        ("user_id,user,item_id,item,rating", "17,John,3,Tea,4", ("17", "3", 4)),
        ("user,user_id,movie,movie_id,rating", "John,17,Heat,3,4", ("17", "3", 4)),
        ("customer_id,customer,asin,product,stars", "17,John,3,Tea,4", ("17", "3", 4)),
    ],
)
def test_ids_win_over_names(path: Path, header: str, line: str, expected: tuple[str, str, float]) -> None:
    assert rows(written(path, f"{header}\n{line}\n")) == [expected]


@pytest.mark.parametrize(
    ("header", "several"),
    [
        ("user,customer_id,item,rating", "column user, got several .*: user and customer_id"),
        ("member_id,visitor_id,item,rating", "column user, got several .*: member_id and visitor_id"),
        ("user_id,artist_id,track_id,plays", "column item, got several .*: artist_id and track_id"),
        ("user,item,count,weight", "column rating, got several .*: count and weight"),
        ("user,item,rating,date,time", "column timestamp, got several .*: date and time"),
    ],
)
def test_names_that_do_not_tell_which_column_is_meant(path: Path, header: str, several: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=several + ".* by --columns user="):
        written(path, f"{header}\n{','.join('1' for _ in header.split(','))}\n")


def test_the_caller_may_choose_the_columns(path: Path) -> None:
    content = "17,John,3,Tea,4\n18,John,4,Tea,5\n"
    assert rows(written(path, content, columns="user,-,item,-,rating")) == [("17", "3", 4), ("18", "4", 5)]
    assert rows(written(path, f"a,b,c,d,e\n{content}", columns="user=b,item=d,rating=e")) == [("John", "Tea", 5)]
    found = written(path, "5,x,1700000000,y\n", columns="rating,user,time,item")
    assert rows(found) == [("x", "y", 5.0)]
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [1.7e9]
    with pytest.raises(InvalidRatingsFile, match="expected one column z"):
        written(path, f"user,item,c,d,e\n{content}", columns="user=z,item=d")
    with pytest.raises(InvalidRatingsFile, match="expected 3 columns, as chosen"):
        written(path, f"user,item,c,d,e\n{content}", columns="user,item,rating")


@pytest.mark.parametrize(
    "text", ["", "user", "user,user,item", "user=a,item", "user,thing", "user=,item=b", "item,rating"]
)
def test_columns_that_cannot_be_understood(path: Path, text: str) -> None:
    with pytest.raises(InvalidSetting, match="Invalid columns: expected user=NAME,item=NAME"):
        written(path, "a,b,1\n", columns=text)


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("playlist_id,track_id\np1,t1\n", "user=playlist_id,item=track_id"),
        ("playlist,track\np1,t1\np2,t2\n", "user=playlist,item=track"),
        ("who,what\n1,2\n", "user=who,item=what"),
        ("who,what,how much\na,b,3\nc,d,4\n", "user=who,item=what,rating=how much"),
    ],
)
def test_a_first_line_that_may_be_a_header_is_asked_about(path: Path, content: str, columns: str) -> None:
    for skip_bad in (False, True):
        with pytest.raises(InvalidRatingsFile, match=r"Invalid line 1 .* --columns user,item") as caught:
            written(path, content, skip_bad=skip_bad)
        assert f"--columns {columns};" in str(caught.value)
    assert len(written(path, content, columns=columns).users) == content.count("\n") - 1


def test_words_may_be_ids(path: Path) -> None:
    assert rows(written(path, "ann,heat\nann,tea\nbob,tea\n")) == [
        ("ann", "heat", 1),
        ("ann", "tea", 1),
        ("bob", "tea", 1),
    ]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("header", "line"), [("user_id,item_id", "u{},i{}"), ("user,item,rating", "u{},i{},3"), ("a,b", "u{},i{}")]
)
def test_files_that_were_joined_are_refused(path: Path, mark: str, header: str, line: str) -> None:
    content = f"{header}\n{line.format(1, 1)}\n{mark}{header}\n{line.format(2, 2)}\n"
    how = {"columns": "user=a,item=b"} if header == "a,b" else {}
    with pytest.raises(InvalidRatingsFile, match=r"line 3 .*(header within the file|byte order mark).*files joined"):
        written(path, content, **how)
    assert written(path, content, skip_bad=True, **how).users == ["u1", "u2"]


def test_a_header_with_other_columns_is_refused_even_among_bad_lines(path: Path) -> None:
    content = "user_id,item_id\nu1,i1\nu3,i3\nitem_id,user_id\ni2,u2\n"
    with pytest.raises(InvalidRatingsFile, match=r"line 4 .* other columns"):
        written(path, content, skip_bad=True)


def test_a_byte_order_mark_within_the_file_is_part_of_no_id(path: Path) -> None:
    content = "u1,i1,5\n\ufeffu2,i2,4\nu3,i3,3\n"
    with pytest.raises(InvalidRatingsFile, match=r"line 2 .* byte order mark"):
        written(path, content)
    assert written(path, content, skip_bad=True).users == ["u1", "u3"]


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_spaces_around_fields_are_part_of_no_id(path: Path, separator: str, end: str) -> None:
    lines = ["user, item, rating", "u1, i1, 5", "u1,i1, 4", " u 2 ,\u00a0i1\u2003,3"]
    found = written(path, end.join(lines).replace(",", separator) + end)
    assert rows(found) == [("u1", "i1", 4.0), ("u 2", "i1", 3.0)]
    assert "without the spaces around 3 different ids" in found.columns


def test_a_space_before_a_quote_is_refused(path: Path) -> None:
    with pytest.raises(InvalidRatingsFile, match=r"line 2 .* a quote right behind the separator"):
        written(path, 'a,"b, c",1\na, "b",2\n')


@pytest.mark.parametrize(
    ("content", "items"),
    [
        ('"user"\t"item"\t"rating"\n"u1"\t"i1"\t5\n', ["i1"]),
        ('u1\t"i ""1"""\t5\nu2\ti2\t5\n', ['i "1"', "i2"]),
        ('u1\t"Weird Al" Yankovic\t5\nu2\t5" disc\t5\n', ['"Weird Al" Yankovic', '5" disc']),
        ('u1,5" disc,5\nu2,i2,5\n', ['5" disc', "i2"]),
    ],
)
def test_quotes_around_fields_are_part_of_no_id(path: Path, content: str, items: list[str]) -> None:
    assert written(path, content).items == items


@pytest.mark.parametrize("content", ['u1,"Weird Al" Yankovic,5\n', '"u1"\t"i1"\t5\n"u2"\t"say \\"hi\\""\t5\n'])
def test_quotes_that_close_too_early_are_refused(path: Path, content: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=f"line {content.count(chr(10))} .* expected after"):
        written(path, content)


def test_single_quotes_around_ids_are_refused(path: Path) -> None:
    with pytest.raises(InvalidRatingsFile, match="expected double quotes around ids, or none, got 'u1'"):
        written(path, "'u1','i1',5\n'u2','i2',4\n")
    assert written(path, "'u1',i1,5\nu2,i2,4\n").users == ["'u1'", "u2"]


@pytest.mark.parametrize("word", [r"\N", "NULL", "null", "NaN", "nan", "None", "NA", "<NA>", " NULL ", "undefined"])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_words_for_a_missing_value_are_no_ids(path: Path, word: str, separator: str) -> None:
    content = f"u1,i1,5\n{word},i2,4\nu3,{word},3\n".replace(",", separator)
    with pytest.raises(InvalidRatingsFile, match=r"line 2 .*missing value.*; 2 of 3 lines are bad, and --skip-bad"):
        written(path, content)
    assert written(path, content, skip_bad=True).users == ["u1"]


def test_typed_ids_that_look_like_a_missing_value_are_counted(path: Path) -> None:
    found = written(path.with_suffix(".jsonl"), '{"user": "null", "item": "NA"}\n{"user": "a", "item": "NA"}\n')
    assert found.users == ["null", "a"]
    assert "; 1 ids are words for a missing value, such as null; 2 ids are" in found.columns


def test_names_like_those_for_missing_values_are_ids(path: Path) -> None:
    assert written(path, "Nanna,Nullable,5\nna na,nonesuch,4\n").users == ["Nanna", "na na"]


def test_a_byte_that_is_no_utf8_is_named_wherever_it_is(path: Path) -> None:
    lines = [b"user,item,rating,title", *(b"u%d,i,3,x" % n for n in range(5)), b"u9,i,3,\xe9t\xe9", b"u10,i,3,x"]
    with pytest.raises(
        InvalidRatingsFile, match=r"line 7 .*UTF-8, got the byte 0xe9 in 'u9,i,3,été' \(shown as Latin-1"
    ):
        written(path, b"\n".join(lines))
    with pytest.raises(InvalidRatingsFile, match=r"line 1 .* zero byte"):
        written(path, "u1,i1,5\n".encode("utf-16-le"))


@pytest.mark.parametrize(("times", "counts"), [([9, 8, 7, 7], 1), ([7, 9, 7, 7], 2), ([], 4)])
def test_the_newest_rating_of_a_pair_counts(path: Path, times: list[int], counts: int) -> None:
    lines = [f"zed,film,{n + 1}" + (f",{times[n]}" if times else "") for n in range(4)]
    found = written(path, "\n".join(lines) + "\nann,film,2" + (",1" if times else ""))
    assert rows(found) == [("zed", "film", counts), ("ann", "film", 2)]
    which = "newest" if times else "last"
    assert f"; 3 ratings left out: of each pair of a user and an item the {which} one counts" in found.columns


def test_among_equal_times_the_last_line_counts(path: Path) -> None:
    assert rows(written(path, "a,b,1,5\na,b,2,5\na,b,3,4\n")) == [("a", "b", 2.0)]


def test_the_newest_counts_in_every_kind_of_file(path: Path) -> None:
    table = {"user": [1, 1], "item": [2, 2], "rating": [5.0, 1.0], "timestamp": [17, 16]}
    pq.write_table(pa.table(table), path.with_suffix(".parquet"))
    lines = "".join(f'{{"user": 1, "item": 2, "rating": {r}, "timestamp": {t}}}\n' for r, t in ((5, 17), (1, 16)))
    path.with_suffix(".jsonl").write_text(lines)
    np.savez(path.with_suffix(".npz"), a=np.array([[1, 2, 5, 17], [1, 2, 1, 16]]))
    for suffix in (".parquet", ".jsonl"):
        assert rows(read(path.with_suffix(suffix))) == [("1", "2", 5.0)]
    assert rows(read(path.with_suffix(".npz"), How.of(columns="user,item,rating,timestamp"))) == [("1", "2", 5.0)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_the_kept_positions_are_those_of_the_definition(
    given_rows: list[tuple[int, int, int]], has_times: bool, is_wide: bool
) -> None:
    users, items, times = (
        np.array(column, np.int64) for column in (zip(*given_rows, strict=True) if given_rows else [[]] * 3)
    )
    newest: dict[tuple[int, int], int] = {}
    for n, (user, item, time) in enumerate(given_rows):
        before = newest.get((user, item))
        if before is None or not has_times or time >= given_rows[before][2]:
            newest[user, item] = n
    n_items = 2**31 - 1 if is_wide else 4
    wide = users.astype(np.int32) + np.int32(2**31 - 8) * is_wide
    kept = newest_of_each_pair(wide, items.astype(np.int32), n_items, times.astype(float) if has_times else None)
    assert (list(range(len(given_rows))) if kept is None else kept.tolist()) == sorted(newest.values())


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([1e10, 123456789012.0]), ["10000000000", "123456789012"]),
        (pa.array([1.0, 2.0], pa.float32()), ["1", "2"]),
        (pa.array([Decimal("12.00"), Decimal("-3.00")], pa.decimal128(10, 2)), ["12", "-3"]),
        (pa.array([2**63 + 1, 7], pa.uint64()), ["9223372036854775809", "7"]),
        (pa.array([1e10, 3.0]).dictionary_encode(), ["10000000000", "3"]),
        (pa.array(["007", "1e10"], pa.large_string()), ["007", "1e10"]),
        (pa.array([b"a", b"b"]), ["a", "b"]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_whole_numbers_of_parquet_are_ids_in_digits(path: Path, ids: pa.Array, expected: list[str]) -> None:
    for name, other in (("user", "item"), ("item", "user")):
        pq.write_table(pa.table({name: ids, other: ["x", "y"], "rating": [1, 2]}), path.with_suffix(".parquet"))
        found = read(path.with_suffix(".parquet"))
        assert (found.users if name == "user" else found.items) == expected


def test_uuids_of_parquet(path: Path) -> None:
    ids = [uuid.UUID(int=1), uuid.UUID(int=2**100)]
    column = pa.array([one.bytes for one in ids], pa.uuid())
    pq.write_table(pa.table({"user": column, "item": ["x", "y"]}), path.with_suffix(".parquet"))
    assert read(path.with_suffix(".parquet")).users == [str(one) for one in ids]


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (pa.array([1.0, 2.5]), "expected whole numbers as ids, got 2.5 in row 2; write them as text"),
        (pa.array([1.0, float("nan")]), "expected whole numbers as ids, got nan in row 2"),
        (pa.array([1.0, 2.0**53]), "expected ids below 9,007,199,254,740,992, where double is exact, got"),
        (pa.array([1.0, 2.0**24], pa.float32()), "expected ids below 16,777,216, where float is exact, got"),
        (pa.array([Decimal("1.00"), Decimal("1.50")], pa.decimal128(10, 2)), "whole numbers as ids, got 1.50 in row 2"),
        (pa.array([True, False]), "expected text or whole numbers, got bool"),
        (pa.array([1, 2], pa.timestamp("s")), "expected text or whole numbers, got timestamp"),
        (pa.array([1.0, None]), "row 2 .* got nothing"),
        (pa.array([None, None]), "expected text or whole numbers, got null"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_ids_of_parquet_that_would_change_are_refused(path: Path, ids: pa.Array, reason: str) -> None:
    pq.write_table(pa.table({"user": ["x", "y"], "item": ids}), path.with_suffix(".parquet"))
    with pytest.raises(InvalidRatingsFile, match=reason):
        read(path.with_suffix(".parquet"))


def test_a_file_of_another_format_is_not_read_for_its_few_good_lines(path: Path) -> None:
    content = "a\tb\tbetty blowtorch\t2137\na\tc\tdie ärzte\t1099\na\td\t311\t897\n"
    with pytest.raises(InvalidRatingsFile, match="got 2 bad lines of 3, too many to leave out: it has another format"):
        written(path, content, skip_bad=True)
    with pytest.raises(InvalidRatingsFile, match="2 bad lines of 3"):
        written(path.with_suffix(".jsonl"), '{"user": 1, "item": 2}\n[]\n[]\n', skip_bad=True)


LIST = np.array([[1, 2, 3, 4, 5], [1, 7, 3, 5, 4], [2, 2, 3, 1, 5]])


@pytest.mark.parametrize("n_columns", [3, 4, 5])
def test_a_matrix_that_may_be_a_list_of_ratings_is_asked_about(path: Path, n_columns: int) -> None:
    io.savemat(path.with_suffix(".mat"), {"rating": LIST[:, :n_columns]})
    np.savez(path.with_suffix(".npz"), rating=LIST[:, :n_columns])
    for suffix in (".mat", ".npz"):
        file = path.with_suffix(suffix)
        asked = (
            f"the matrix rating of 3 rows and {n_columns} columns, which may be a list of ratings: its first row is 1"
        )
        with pytest.raises(InvalidRatingsFile, match=f"{asked}.*--columns user,item,rating.*--columns items"):
            read(file)
        listed = ",".join(["user", "item", "rating", "-", "-"][:n_columns])
        assert rows(read(file, How.of(columns=listed))) == [("1", "2", 3.0), ("1", "7", 3.0), ("2", "2", 3.0)]
        dense = read(file, How.of(columns="items"))
        assert (len(dense.users), dense.users[0], dense.items[-1]) == (3 * n_columns, "0", str(n_columns - 1))
        assert dense.columns.startswith(f"the matrix rating of 3 rows and {n_columns} columns: rows are users")


@pytest.mark.parametrize(
    "matrix", [LIST[:, :2], LIST + 0.5, -LIST, np.ones((3, 6)), LIST[:, :3] > 2, sparse.coo_array(LIST)]
)
def test_other_matrices_are_matrices(path: Path, matrix: Any) -> None:
    if sparse.issparse(matrix):
        sparse.save_npz(path.with_suffix(".npz"), matrix)
    else:
        np.savez(path.with_suffix(".npz"), m=matrix)
    assert read(path.with_suffix(".npz")).users[0] == "0"


def test_ratings_beyond_a_limit_are_named_by_their_line(path: Path) -> None:
    content = "user,item,count\nu1,song,200000\nu1,podcast,3600000\nu2,song,100\n"
    assert len(written(path, content).values) == 3
    with pytest.raises(InvalidRatingsFile, match=r"line 3 .*expected at most 1e\+06 as rating, got '3600000'"):
        written(path, content, largest=1e6)
    assert written(path, content, largest=1e6, skip_bad=True).users == ["u1", "u2"]
    np.savez(path.with_suffix(".npz"), m=np.array([[0.5, 3.6e6]]))
    with pytest.raises(InvalidRatingsFile, match=r"at most 1e\+06, got 3600000"):
        read(path.with_suffix(".npz"), How(largest=1e6))


NAMES_OF_IDS = st.text(st.sampled_from("ab1:|; _-é"), min_size=1, max_size=6).filter(lambda text: text.strip() == text)


@given(st.lists(st.tuples(NAMES_OF_IDS, NAMES_OF_IDS, st.integers(1, 5)), min_size=1, max_size=12))
def test_a_file_without_header_is_read_as_written_or_refused(
    tmp_path_factory: pytest.TempPathFactory, given_rows: list[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("files") / "r.csv"
    last = {(user, item): rating for user, item, rating in given_rows}
    for separator in (",", "\t"):
        content = "".join(separator.join([user, item, str(rating)]) + "\n" for user, item, rating in given_rows)
        try:
            found = written(path, content)
        except InvalidRatingsFile as error:
            assert "--delimiter" in str(error) or "--columns" in str(error)
        else:
            assert {(user, item): rating for user, item, rating in rows(found)} == last
