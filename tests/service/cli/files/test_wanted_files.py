"""Files as people have them: read as they are, or by an option that says what they are."""

import gzip
import json
from pathlib import Path

import pytest

from service.cli import importer
from service.cli.files import items_file
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_file import RatingsFile, read
from service.settings.errors import InvalidSetting

Rows = list[tuple[str, str, float]]


def rows(file: RatingsFile) -> Rows:
    return list(zip(file.users, file.items, file.values.tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "content", "how", "expected"),
    [
        ("libmf.txt", "0 1 5\n1  2 3\n", How.of(delimiter=" "), [("0", "1", 5), ("1", "2", 3)]),
        ("aligned.txt", "  10 1\t5 \r\n   1 20 3\n", How.of(delimiter="space"), [("10", "1", 5), ("1", "20", 3)]),
        ("book.csv", '"User-ID";"ISBN";"Book-Rating"\n"1";"0x";"7"\n', How.of(delimiter=";"), [("1", "0x", 7)]),
        ("array.json", '[{"user": 1, "item": "i", "rating": 3},\n {"user": 2, "item": "j", "rating": 4}]', How(),
         [("1", "i", 3), ("2", "j", 4)]),
        ("netflix.txt", "12:\n7,3,2005-09-06\n9,5,2005-05-13\n2:\n7,4,2005-09-05\n", How(),
         [("7", "12", 3), ("9", "12", 5), ("7", "2", 4)]),
        ("netflix.txt", "12:\r\n7,3,2005-09-06\r\n2:\r\n7,4,2005-09-05", How(), [("7", "12", 3), ("7", "2", 4)]),
        ("market.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 3 5\n2 2 3\n", How(),
         [("1", "3", 5), ("2", "2", 3)]),
        ("pattern.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n", How(), [("2", "1", 1)]),
        ("reviews.csv", 'user,item,rating,text\nu1,i1,5,"a\n\nb, ""c"""\nu2,i2,4,"d\r\ne"\n', How(),
         [("u1", "i1", 5), ("u2", "i2", 4)]),
        ("plain.csv", 'u1,i1,5,"1\n"\nu2,i2,4,"2"\n', How.of(columns="user,item,rating,-"),
         [("u1", "i1", 5), ("u2", "i2", 4)]),
        ("amazon.jsonl", '{"rating": 5.0, "title": "t", "asin": "B1", "parent_asin": "B0", "user_id": "A",'
         ' "timestamp": 1588687728923}', How.of(time_unit="ms"), [("A", "B0", 5)]),
        ("named.csv", "player,game,hours,when\np,g,2,3\n", How.of(user="player", rating="hours", time="when"),
         [("p", "g", 2)]),
        ("named.jsonl", '{"asin": "a", "isbn": "b", "userid": "u", "stars": 2}', How.of(item="isbn"), [("u", "b", 2)]),
    ],
)  # fmt: skip
def test_files_as_people_have_them(tmp_path: Path, name: str, content: str, how: How, expected: Rows) -> None:
    for path, data in ((tmp_path / name, content.encode()), (tmp_path / f"{name}.gz", gzip.compress(content.encode()))):
        path.write_bytes(data)
        assert rows(read(path, how)) == expected


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8"])
def test_the_encoding_is_that_of_the_option(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes("user,item,rating\nJosé,Müller,4\n".encode(encoding))
    assert rows(read(path, How.of(encoding=encoding))) == [("José", "Müller", 4)]
    path.write_bytes("item,tags.town\na,Zürich\n".encode(encoding))
    assert items_file.read(path, How.of(encoding=encoding)).elements == [{"item": "a", "tags": {"town": ["Zürich"]}}]


def test_options_that_cannot_be_understood_are_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"encoding": "klingon"}, "encoding: expected one such as latin-1"),
        ({"encoding": "base64"}, "encoding"),
        ({"time_unit": "minutes"}, "time unit: expected s, ms, us, ns"),
        ({"columns": "user,item", "item": "x"}, "expected --columns or the names of single columns, got both"),
    ):
        with pytest.raises(InvalidSetting, match=message):
            How.of(**options)  # type: ignore[arg-type]
    path = tmp_path / "r.csv"
    path.write_bytes(b"user,item,rating\nu,i,1\n\xff\n")
    with pytest.raises(InvalidRatingsFile, match="expected text in utf-16"):
        read(path, How.of(encoding="utf-16"))
    with pytest.raises(InvalidRatingsFile, match="as by --encoding latin-1"):
        read(path)
    with pytest.raises(InvalidRatingsFile, match=r"expected one column nobody \(user, as chosen\)"):
        read(path, How.of(user="nobody", encoding="latin-1"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_in_the_unit_of_the_option(tmp_path: Path, unit: str) -> None:
    time = 1_700_000_000 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    for name, content in (
        ("r.csv", f"user,item,rating,timestamp\nu,i,1,{time}\nu,j,1,2023-11-14 22:13:20 UTC\n"),
        ("r.json", json.dumps([{"user": "u", "item": "i", "time": time}, {"user": "u", "item": "j", "time": time}])),
    ):
        path = tmp_path / name
        path.write_text(content)
        times = read(path, How.of(time_unit=unit)).timestamps
        assert times is not None
        assert times.tolist() == [1_700_000_000] * 2
        if unit != "s":
            with pytest.raises(InvalidRatingsFile, match="--time-unit ms"):
                read(path)


def test_a_rating_may_have_no_time_and_is_sent_last(tmp_path: Path) -> None:
    for name, content in (
        ("r.csv", "user,item,rating,timestamp\nu,i,1,\nu,j,2,1700000000\nu,k,3,1600000000\nu,j,4,\n"),
        ("d.csv", "user,item,rating,timestamp\nu,i,1,\nu,j,2,2023-11-14\nu,k,3,2020-09-13\nu,j,4,\n"),
        ("r.jsonl", "\n".join(json.dumps(dict(zip(("user", "item", "rating", "time"), row, strict=True))) for row in (
            ("u", "i", 1, None), ("u", "j", 2, 1_700_000_000), ("u", "k", 3, 1_600_000_000), ("u", "j", 4, None)))),
    ):  # fmt: skip
        path = tmp_path / name
        path.write_text(content)
        file = read(path)
        assert "times from 2020-09-13 to 2023-11-14, 2 without a time" in file.columns
        records = list(importer.records(file))
        assert [(record["item"], record["rating"]) for record in records] == [("k", 3), ("j", 2), ("i", 1)]
        assert "timestamp" in records[1]
        assert "timestamp" not in records[2]


def test_a_missing_rating_is_no_missing_time(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("user,item,rating,timestamp\nu,i,,1700000000\nu,j,2,1\n")
    with pytest.raises(InvalidRatingsFile, match=r"line 2 .* expected a finite number as rating, got ''"):
        read(path)


def test_newlines_in_what_is_used_and_quotes_that_are_not_closed_are_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('user,item,rating,text\nu,"i\n1",5,x\nv,j,4,"a\nb"\nw,"k,3,y\nx,l,2,"c\nd"\nu,m,1,\n')
    with pytest.raises(InvalidRatingsFile, match=r"line 2 of .*: expected a closing quote in the same line"):
        read(path)
    file = read(path, How(skip_bad=True))
    assert [row[1] for row in rows(file)] == ["j", "l", "m"]
    assert [line.number for line in file.bad] == [2, 6]


def test_folders_of_part_files_are_one_file(tmp_path: Path) -> None:
    for suffix, parts in {
        "csv": ("user,item,rating\na,x,1\n", "item,user,rating\ny,b,2\n", ""),
        "json": ('{"user": "a", "item": "x", "rating": 1}\n', "", '{"user": "b", "item": "y", "rating": 2}\n'),
    }.items():
        folder = tmp_path / suffix
        folder.mkdir()
        (folder / "_SUCCESS").touch()
        (folder / ".part-0.crc").touch()
        for number, part in enumerate(parts):
            (folder / f"part-{number}.{suffix}").write_text(part)
        assert rows(read(folder)) == [("a", "x", 1), ("b", "y", 2)]
        (folder / f"part-3.{suffix}").write_text("user,item\na,z\n" if suffix == "csv" else '{"user":"a","item":"z"}')
        with pytest.raises(InvalidRatingsFile, match=rf"part-3.{suffix}: expected user, item, rating as in part-0"):
            read(folder)
        (folder / "notes.pdf").touch()
        with pytest.raises(InvalidRatingsFile, match=r"got a folder with notes.pdf, part-0"):
            read(folder)
    folder = tmp_path / "items"
    folder.mkdir()
    (folder / "part-0.csv").write_text("item,genres,available\na,x|y,t\n")
    (folder / "part-1.csv").write_text('item,genres,available\nb,"x\ny",f\n')
    assert items_file.read(folder).elements == [
        {"item": "a", "tags": {"genre": ["x", "y"]}, "available": True},
        {"item": "b", "tags": {"genre": ["x y"]}, "available": False},
    ]
