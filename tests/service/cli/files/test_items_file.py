import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.__main__ import run
from service.cli.files import items_file
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from tests.data import DATA, needs_ml_1m
from tests.service.process import Service

CSV = """item,tags.genre,numbers.price,available,published,until,note
a,action|war,9.99,true,1700000000,,x
"b, c",,,no,,2027-01-15T08:00:00Z,
d,,-1,,,,
"""
READ = [
    {
        "item": "a",
        "tags": {"genre": ["action", "war"]},
        "numbers": {"price": 9.99},
        "available": True,
        "published": 1.7e9,
    },
    {"item": "b, c", "available": False, "until": 1.8e9},
    {"item": "d", "numbers": {"price": -1.0}},
]


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("items.csv", CSV),
        ("items.csv.gz", gzip.compress(("\ufeff\n" + CSV).encode())),
        ("items.tsv", CSV.replace('"b, c"', "b; c").replace(",", "\t").replace("b; c", "b, c")),
        ("items.ndjson", "\n\n".join(map(json.dumps, READ))),
        ("items.jsonl.gz", gzip.compress("\n".join(map(json.dumps, READ)).encode())),
    ],
)
def test_formats_have_the_same_items(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert items_file.read(written(tmp_path, name, content)).elements == READ


def test_columns_of_parquet(tmp_path: Path) -> None:
    moment = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    rows: dict[str, Any] = {
        "item_id": [1, 2],
        "tags.genre": [["x", "y"], None],
        "tags": [{"mood": ["dark", None]}, {"mood": None}],
        "numbers": [{"weight": Decimal("2.5")}, None],
        "numbers.price": [1.5, None],
        "until": [moment, None],
        "embedding": [[Decimal("0.5"), Decimal(1)], None],
        "title": ["t", "u"],
        "plot": ["p", "q"],
    }
    pq.write_table(pa.table({name: pa.array(column) for name, column in rows.items()}), tmp_path / "items.parquet")
    file = items_file.read(tmp_path / "items.parquet")
    assert file.elements == [
        {
            "item": "1",
            "tags": {"mood": ["dark"], "genre": ["x", "y"]},
            "numbers": {"weight": 2.5, "price": 1.5},
            "until": moment.timestamp(),
            "embedding": [0.5, 1.0],
            "title": "t",
        },
        {"item": "2", "tags": {}, "title": "u"},
    ]
    assert file.columns.endswith("embedding = embedding, title = title; not used: plot")


def test_movies_of_movielens(tmp_path: Path) -> None:
    dat = written(
        tmp_path, "movies.dat", "1::Toy Story (1995)::Animation|Comedy\n2::Les Misérables::Drama".encode("latin-1")
    )
    assert items_file.read(dat).elements == [
        {"item": "1", "title": "Toy Story (1995)", "tags": {"genre": ["Animation", "Comedy"]}},
        {"item": "2", "title": "Les Misérables", "tags": {"genre": ["Drama"]}},
    ]
    csv = written(tmp_path, "movies.csv", 'movieId,title,genres\n1,"A, B",Drama\n2,C,(no genres listed)\n')
    assert items_file.read(csv).elements == [
        {"item": "1", "title": "A, B", "tags": {"genre": ["Drama"]}},
        {"item": "2", "title": "C", "tags": {"genre": []}},
    ]


def test_only_line_ends_end_a_line(tmp_path: Path) -> None:
    item = {"item": "a", "tags": {"title": ["one\u2028two\x85three\x0c"]}}
    path = written(tmp_path, "a.jsonl", json.dumps(item, ensure_ascii=False) + '\r\n{"item": "b"}\r{"item": "c"}\n')
    assert items_file.read(path).elements == [item, {"item": "b"}, {"item": "c"}]


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("tags.genre", [[b"war"]], "Invalid tags.genre: expected text, got \"b'war'\""),
        ("tags", [{"genre": b"war"}], "Invalid tags: expected text, got"),
        ("embedding", ["abc"], "Invalid embedding: expected a list of numbers, got 'abc'"),
        ("embedding", [[1.0, None]], "Invalid embedding: expected a finite number, got 'None'"),
    ],
)
def test_columns_of_parquet_that_cannot_be_used(tmp_path: Path, column: str, values: list[Any], reason: str) -> None:
    pq.write_table(pa.table({"item": ["a"], column: values}), tmp_path / "items.parquet")
    with pytest.raises(InvalidRatingsFile, match=reason):
        items_file.read(tmp_path / "items.parquet")


@needs_ml_1m
def test_the_movies_that_there_are() -> None:
    file = items_file.read(DATA / "ml-1m" / "movies.dat")
    assert len(file.elements) == 3883
    assert len({genre for one in file.elements for genre in one["tags"]["genre"]}) == 18


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", "id,price\n1,2\n", "expected one column item, got 0 among id, price"),
        ("a.csv", "item,item\n1,2\n", "expected one column item, got 2 among item, item"),
        ("a.csv", "", "expected one column item, got 0 among"),
        ("a.csv", "item,tags.a,tags.a\n1,x,y\n", "expected one column tags.a, got 2"),
        ("a.csv", "item,genres,tags.genre\n1,x,y\n", "expected one column tags.genre, got 2"),
        (
            "a.csv",
            'item,tags.title\n1,"two\nlines\n2,x\n',
            "Invalid line 2 of .*: expected a closing quote in the same line",
        ),
        (
            "a.csv",
            "item,numbers.n\na,1\nb,x\n",
            "Invalid line 3 of .*numbers.n: expected a finite number, got 'x'",
        ),
        (
            "a.csv",
            "item,numbers.n\na,nan\n",
            "line 2 of .*numbers.n: expected a finite number, got 'nan'",
        ),
        ("a.csv", "item,available\na,perhaps\n", "Invalid available: expected true or false, got 'perhaps'"),
        (
            "a.csv",
            "item,until\na,1700000000000\n",
            "Invalid until: expected Unix seconds, .*divide milliseconds",
        ),
        ("a.csv", "item,until\na\n", "expected 2 columns, got 1: 'a'"),
        ("a.csv", "item,until\n,5\n", "Invalid line 2 of .*: expected an item, got none"),
        ("a.jsonl", '{"item": "a"}\n5\n', "Invalid line 2 of .*: expected one JSON object, got int"),
        ("a.jsonl", "{", "expected a JSON object, got '{'"),
        ("a.parquet", "PAR1", "expected items that can be read"),
        ("a.csv.gz", b"\x1f\x8bx", "expected items that can be read"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, name: str, content: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=reason):
        items_file.read(written(tmp_path, name, content))


@pytest.mark.parametrize(
    "header",
    [
        "ITEM_ID,Tags.genre,NUMBERS.price,Available,Until",
        "Item Id,TAGS.genre,Numbers.price,AVAILABLE,UNTIL",
        "itemId, tags.genre, numbers.price, available, until ",
    ],
)
def test_columns_are_named_in_any_capitals(tmp_path: Path, header: str) -> None:
    element = {
        "item": "a",
        "tags": {"genre": ["x", "y"]},
        "numbers": {"price": 2.0},
        "available": False,
        "until": 1.8e9,
    }
    file = items_file.read(written(tmp_path, "a.csv", f"{header}\na,x|y,2,FALSE,1800000000\n"))
    assert file.elements == [element]
    assert "not used" not in file.columns
    file = items_file.read(written(tmp_path, "a.tsv", f"{header}\na,x|y,2,FALSE,1800000000\n".replace(",", "\t")))
    assert file.elements == [element]
    pq.write_table(
        pa.table(dict(zip(header.split(","), (["a"], ["x|y"], [2], [False], [1800000000]), strict=True))),
        tmp_path / "a.parquet",
    )
    assert items_file.read(tmp_path / "a.parquet").elements == [element]


def test_what_a_file_hides_is_not_available(tmp_path: Path) -> None:
    content = "item_id,is_hidden,categories\na,1,x\nb,0,y\nc,True,\nd,,\n"
    file = items_file.read(written(tmp_path, "a.csv", content))
    assert file.elements == [
        {"item": "a", "available": False},
        {"item": "b", "available": True},
        {"item": "c", "available": False},
        {"item": "d"},
    ]
    assert file.columns == "columns: item = item_id, is_hidden = is_hidden; not used: categories"
    lines = '{"ItemId": "a", "IsHidden": true}\n{"ITEM": "b", "Available": false, "Tags": {"Genre": ["x"]}}\n'
    assert items_file.read(written(tmp_path, "a.jsonl", lines)).elements == [
        {"item": "a", "available": False},
        {"item": "b", "available": False, "tags": {"Genre": ["x"]}},
    ]


@pytest.mark.parametrize(
    ("name", "content", "place", "byte"),
    [
        (
            "a.csv",
            b"item,tags.author\nb\xc3\xbccher-1,M\xc3\xbcller\n2,M\xfcller\n",
            "3: tags.author",
            "0xfc after 'M'",
        ),
        ("a.csv", b"item,tags.author\nb\xfccher,x\n", "2: item", "0xfc after 'b'"),
        ("a.csv", b"item,tags.\xfc\na,x\n", "1: line", "0xfc after 'item,tags.'"),
        ("a.tsv", b"item\ttags.x\n\na\tx\r\nb\t\xe9\r\n", "4: tags.x", "0xe9 after ''"),
        ("a.csv.gz", gzip.compress(b"item,tags.x\na,\x80\n", mtime=0), "2: tags.x", "0x80 after ''"),
        ("a.jsonl", b'{"item": "a", "tags": {}}\n{"item": "\xfc"}\n', "2: line", '0xfc after \'{"item": "\''),
        ("movies.dat", b"1::A::Drama\n2\xe9::B::War\n", "2: item", "0xe9 after '2'"),
        ("a.csv", "item,tags.x\na,y\n".encode("utf-16"), "1: line", "0xff after ''"),
    ],
)
def test_a_byte_that_is_not_utf8_is_refused_with_its_line(
    tmp_path: Path, name: str, content: bytes, place: str, byte: str
) -> None:
    line, where = place.split(": ")
    with pytest.raises(
        InvalidRatingsFile, match=f"Invalid line {line} of .*: Invalid {where}: expected UTF-8, got the byte {byte}"
    ):
        items_file.read(written(tmp_path, name, content))


def test_bad_bytes_leave_other_lines_and_other_columns_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", b"item,plot,tags.x\nb\xc3\xbc,\xe9,y\nc,d,\xe9\n")
    file = items_file.read(path, How(skip_bad=True))
    assert file.elements == [{"item": "b\u00fc", "tags": {"x": ["y"]}}]
    assert [line.number for line in file.bad] == [3]


@pytest.mark.parametrize(
    ("name", "content", "got"),
    [
        ("a.csv", "item,plot\na,x\n", "got item, plot"),
        ("a.csv", "item\na\n", "got item"),
        ("a.csv", "item,price,tags.\na,1,2\n", "got item, price, tags."),
        ("a.jsonl", '{"item": "a"}\n{"item": "b", "price": 3}\n', "got item, price"),
    ],
)
def test_a_file_without_an_attribute_is_refused(tmp_path: Path, name: str, content: str, got: str) -> None:
    expected = r"expected an attribute \(title, url, image, tags.NAME, numbers.NAME, .*\) beside item, "
    with pytest.raises(InvalidRatingsFile, match=f"{expected}{got}$"):
        items_file.read(written(tmp_path, name, content))
    pq.write_table(pa.table({"item": ["a"], "plot": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidRatingsFile, match=f"{expected}got item, plot$"):
        items_file.read(tmp_path / "a.parquet")


def test_bad_lines_can_be_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "item,numbers.n\na,1\nb,x\nc,2\n")
    file = items_file.read(path, How(skip_bad=True))
    assert [one["item"] for one in file.elements] == ["a", "c"]
    assert [line.number for line in file.bad] == [3]


def test_a_file_is_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(tmp_path / "data")
    try:
        path = written(tmp_path, "items.csv", CSV + "e,,1e39,,,,\n")
        assert run(["import", "--items", str(path), "--url", str(service.client.base_url)]) == 1
        out, err = capsys.readouterr()
        assert out == "3 items accepted, 1 rejected\n"
        assert "item 4 of" in err
        assert "Invalid numbers.price: expected a finite number up to 3.4e+38, got 1e+39" in err
        assert "nearfield: replaces 4 items' attributes" in err
        service.api.wait_for(service.api.put_items([{"item": "z"}])["stream_id"])
        assert service.api.get("/items/a")["tags"] == {"genre": ["action", "war"]}
        prices = written(tmp_path, "prices.csv", "item,numbers.price\na,7\nd,\nnew,1\n")
        for options, tags in ((["--patch"], {"genre": ["action", "war"]}), (["--items"], {})):
            assert run(["import", *options, str(prices), "--url", str(service.client.base_url)]) == 0
            out, err = capsys.readouterr()
            assert out == "3 items accepted, 0 rejected\n"
            assert ("replaces 3 items' attributes" in err) == (options == ["--items"])
            service.api.wait_for(service.api.put_items([{"item": "z"}])["stream_id"])
            found = service.api.get("/items/a")
            assert (found["tags"], found["numbers"]) == (tags, {"price": 7.0})
            assert service.api.get("/items/d")["numbers"] == ({"price": -1.0} if tags else {})
    finally:
        service.kill()
