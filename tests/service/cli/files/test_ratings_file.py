import gzip
import os
import zipfile
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import io, sparse

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.how import How
from service.cli.files.ratings_file import read

MATRIX = np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, 0], [0, 0, -3]])


def ratings_of(path: Path, key: str | None = None) -> list[tuple[str, str, float]]:
    found = read(path, How(key))
    return list(zip(found.users, found.items, found.values.tolist(), strict=True))


@pytest.mark.parametrize("ids", [pa.string(), pa.int64(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet(tmp_path: Path, ids: pa.DataType) -> None:
    users = pa.array(["7", "8", "7"]).cast(ids) if ids != pa.int64() else pa.array([7, 8, 7])
    table = pa.table({"extra": [0, 0, 0], "rating": [1, 2, 3], "user": users, "item": ["a", "b", "é"]})
    pq.write_table(table, tmp_path / "r.parquet")
    assert ratings_of(tmp_path / "r.parquet") == [("7", "a", 1.0), ("8", "b", 2.0), ("7", "é", 3.0)]
    assert read(tmp_path / "r.parquet").timestamps is None


def test_parquet_columns_are_taken_by_their_names(tmp_path: Path) -> None:
    pq.write_table(pa.table({"movieId": ["i"], "Rating": [4.0], "userId": ["u"]}), tmp_path / "r.parquet")
    assert ratings_of(tmp_path / "r.parquet") == [("u", "i", 4.0)]
    assert read(tmp_path / "r.parquet").columns == (
        "columns: user = userId, item = movieId, rating = Rating; Parquet, 1 rows; ratings from 4 to 4;"
        " the first: user u, item i, rating 4"
    )


def test_parquet_timestamps(tmp_path: Path) -> None:
    table = pa.table({"user": ["u"], "item": ["i"], "rating": [1.0], "timestamp": [12]})
    pq.write_table(table, tmp_path / "r.parquet")
    timestamps = read(tmp_path / "r.parquet").timestamps
    assert timestamps is not None
    assert timestamps.tolist() == [12.0]


UTC_PLUS_1 = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    "times",
    [
        pa.array([datetime(2023, 11, 14, 22, 13, 20)], pa.timestamp("ns")),
        pa.array([datetime(2023, 11, 14, 22, 13, 20)], pa.timestamp("s")),
        pa.array([datetime(2023, 11, 14, 23, 13, 20, tzinfo=UTC_PLUS_1)], pa.timestamp("us", "Europe/Berlin")),
        pa.array(["2023-11-14T22:13:20Z"]),
        pa.array(["1700000000"], pa.large_string()),
        pa.array([1_700_000_000]),
    ],
    ids=lambda times: str(times.type),
)
def test_parquet_times_of_every_kind(tmp_path: Path, times: pa.Array) -> None:
    pq.write_table(pa.table({"user": ["u"], "item": ["i"], "timestamp": times}), tmp_path / "r.parquet")
    found = read(tmp_path / "r.parquet")
    assert found.timestamps is not None
    assert (found.timestamps.tolist(), found.values.tolist()) == ([1.7e9], [1.0])
    assert "; no ratings: every pair counts 1; " in found.columns
    assert "; times from 2023-11-14 to 2023-11-14; " in found.columns


def test_a_date_of_parquet_is_its_first_moment(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["u"], "item": ["i"], "date": [date(1970, 1, 2)]}), tmp_path / "r.parquet")
    timestamps = read(tmp_path / "r.parquet").timestamps
    assert timestamps is not None
    assert timestamps.tolist() == [86400.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"user": ["u"], "item": ["i"], "mine": [1]}, "expected columns user, item and rating, found no rating among"),
        ({"user": ["u", None], "item": ["i", "i"], "rating": [1.0, 1.0]}, "user in row 2 .* to 256 bytes, got nothing"),
        ({"user": ["u"], "item": [""], "rating": [1.0]}, "item in row 1"),
        ({"user": ["u"], "item": ["x" * 257], "rating": [1.0]}, "item in row 1"),
        ({"user": ["u"], "item": ["i"], "rating": [float("nan")]}, "rating in row 1 .* a finite number .*, got 'nan'"),
        ({"user": ["u"], "item": ["i"], "rating": [1e39]}, "rating in row 1"),
        ({"user": ["u"], "item": ["i"], "rating": ["four"]}, "four"),
        ({"user": [["u"]], "item": ["i"], "rating": [1.0]}, "user of .*: expected text or whole numbers, got list"),
        ({"user": ["u"], "item": ["i"], "rating": [1.0], "timestamp": [1700000000000]}, "divide milliseconds by 1,000"),
        (
            {"user": ["u"], "item": ["i"], "timestamp": [[1]]},
            "timestamp of .*: expected Unix seconds, dates or datetimes, got list",
        ),
        ({"user": ["u"], "item": ["i"], "timestamp": ["soon"]}, "timestamp of .*: expected Unix seconds, or a date"),
    ],
)
def test_unusable_parquet(tmp_path: Path, table: dict[str, list[object]], message: str) -> None:
    pq.write_table(pa.table(table), tmp_path / "r.parquet")
    with pytest.raises(InvalidRatingsFile, match=message):
        read(tmp_path / "r.parquet")


EXPECTED = [("0", "1", 2.5), ("1", "0", 1.0), ("3", "2", -3.0)]


@pytest.mark.parametrize("form", [np.asarray, sparse.csc_matrix])
def test_mat(tmp_path: Path, form: object) -> None:
    matrix = form(MATRIX)  # type: ignore[operator]
    io.savemat(tmp_path / "a.mat", {"gnd": np.ones((50, 1)), "fea": matrix, "note": "text"})
    assert ratings_of(tmp_path / "a.mat") == EXPECTED
    io.savemat(tmp_path / "b.mat", {"gnd": np.ones((4, 1)), "other": matrix})
    assert ratings_of(tmp_path / "b.mat") == EXPECTED
    assert len(ratings_of(tmp_path / "b.mat", "gnd")) == 4


def test_npz(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "a.npz", sparse.csr_array(MATRIX))
    np.savez(tmp_path / "b.npz", small=np.ones((1, 1)), big=MATRIX)
    assert ratings_of(tmp_path / "a.npz") == ratings_of(tmp_path / "b.npz") == EXPECTED
    assert ratings_of(tmp_path / "b.npz", "small") == [("0", "0", 1.0)]


def test_unusable_matrices(tmp_path: Path) -> None:
    for name in ("a.npz", "a.mat"):
        (tmp_path / name).write_bytes(b"not a matrix at all" * 20)
        with pytest.raises(InvalidRatingsFile, match=name):
            read(tmp_path / name)
    np.savez(tmp_path / "b.npz", text=np.array([["a"]]))
    with pytest.raises(InvalidRatingsFile, match="matrix of real numbers with two axes, got text <U1"):
        read(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", matrix=np.array([[np.nan]]))
    with pytest.raises(InvalidRatingsFile, match="finite"):
        read(tmp_path / "c.npz")
    io.savemat(tmp_path / "c.mat", {"matrix": np.array([[1.0]])})
    for name in ("c.npz", "c.mat"):
        with pytest.raises(InvalidRatingsFile, match="expected a variable nope, got matrix"):
            read(tmp_path / name, How("nope"))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 2), dtype=complex), r"real numbers with two axes, got m complex128 \(2, 2\)"),
        (np.ones((2, 2, 2)), r"two axes, got m float64 \(2, 2, 2\)"),
        (np.full((2, 2), 1e300), "finite in float32, got 1e"),
        (np.array([[1.0, np.inf]]), "finite in float32, got inf"),
    ],
)
def test_matrices_of_no_use_are_refused_in_one_line(tmp_path: Path, matrix: np.ndarray, message: str) -> None:
    np.savez(tmp_path / "m.npz", m=matrix)
    io.savemat(tmp_path / "m.mat", {"m": matrix})
    for name in ("m.npz", "m.mat"):
        with pytest.raises(InvalidRatingsFile, match=message):
            read(tmp_path / name)


def test_a_huge_and_almost_empty_matrix(tmp_path: Path) -> None:
    corner = sparse.coo_array(([2.0], ([10**12 - 1], [7])), shape=(10**12, 10**12))
    sparse.save_npz(tmp_path / "huge.npz", corner)
    assert ratings_of(tmp_path / "huge.npz") == [("999999999999", "7", 2.0)]


def test_an_empty_matrix_and_one_of_booleans(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", m=np.zeros((3, 0)))
    assert ratings_of(tmp_path / "a.npz") == []
    np.savez(tmp_path / "b.npz", m=np.array([[False, True]]))
    assert ratings_of(tmp_path / "b.npz") == [("0", "1", 1.0)]


def test_a_matrix_that_promises_more_than_fits(tmp_path: Path) -> None:
    header = np.lib.format
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as archive, archive.open("m.npy", "w") as file:
        header.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
    with pytest.raises(InvalidRatingsFile, match=r"big\.npz"):
        read(tmp_path / "big.npz")


JSON = b'{"userId": 7, "rating": 2.5, "item": "a"}\n\n{"item": "b", "userId": "u", "rating": 1, "more": []}\n'


@pytest.mark.parametrize("name", ["r.jsonl", "r.ndjson", "r.json", "r.jsonl.gz"])
def test_jsonl(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(JSON) if name.endswith(".gz") else JSON)
    assert ratings_of(path) == [("7", "a", 2.5), ("u", "b", 1.0)]
    assert read(path).columns == (
        "columns: user = userId, item = item, rating = rating; JSONL, 2 lines; ratings from 1 to 2.5;"
        " the first: user 7, item a, rating 2.5"
    )


@pytest.mark.parametrize("beginning", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_jsonl_of_windows_with_dates_and_without_ratings(tmp_path: Path, beginning: bytes, end: bytes) -> None:
    path = tmp_path / "r.jsonl"
    lines = [
        b'{"user_id": "a", "item_id": "b", "timestamp": "1970-01-02"}',
        b'{"user_id": 1, "item_id": 2, "timestamp": 5}',
    ]
    path.write_bytes(beginning + end.join(lines) + end)
    found = read(path)
    assert (found.users, found.items, found.values.tolist()) == (["a", "1"], ["b", "2"], [1.0, 1.0])
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [86400.0, 5.0]
    assert found.columns.startswith("columns: user = user_id, item = item_id, timestamp = timestamp; no ratings")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]", "expected one JSON object, got list"),
        (b'{"user": "u"', "expected a JSON object, got"),
        (b'{"user": "u", "item": "i"}', "expected a finite number as rating, got nothing"),
        (b'{"user": "u", "item": "i", "rating": "5"}', "expected a finite number as rating, got '5'"),
        (b'{"user": "u", "item": "i", "rating": 1e39}', "expected at most 3.4e"),
        (b'{"user": "u", "item": "i", "rating": 1' + b"0" * 400 + b"}", "expected at most 3.4e"),
        (b'{"user": true, "item": "i", "rating": 1}', "expected text or an integer as user, got True"),
        (b'{"user": "", "item": "i", "rating": 1}', "1 to 256 bytes"),
        (b'{"user": "u", "item": "i", "rating": 1, "timestamp": 1.7e12}', "divide milliseconds by 1,000"),
        (b"[" * 5000, "expected a JSON object"),
        (
            b'{"user": "u", "item": "i", "rating": 1, "timestamp": "soon"}',
            "expected Unix seconds, or a date or datetime",
        ),
    ],
)
def test_a_bad_line_of_jsonl_is_named_or_skipped(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"user": "a", "item": "b", "rating": 1, "timestamp": 5}\n' + line + b"\n")
    with pytest.raises(InvalidRatingsFile, match=r"Invalid line 2 of .*r\.jsonl: ") as caught:
        read(path)
    assert reason in str(caught.value)
    found = read(path, How(skip_bad=True))
    assert (found.users, [bad.number for bad in found.bad]) == (["a"], [2])


def test_a_first_line_of_jsonl_names_the_fields(tmp_path: Path) -> None:
    for content in (b"", b"[]", b"[1]", b'{"user": "a", "rating": 3}'):
        (tmp_path / "r.jsonl").write_bytes(content)
        with pytest.raises(InvalidRatingsFile, match=r"(line|element) 1"):
            read(tmp_path / "r.jsonl")


def test_what_the_first_line_of_jsonl_lacks_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"user": "a", "item": "b"}\n{"user": "a", "item": "c", "text": 2, "stars": 5}\n')
    with pytest.raises(
        InvalidRatingsFile, match=r"line 2 of .*: expected the fields of the first line, got also stars"
    ):
        read(path)
    path.write_bytes(path.read_bytes().replace(b"stars", b"sort"))
    assert read(path).items == ["b", "c"]


def test_compressed_text(tmp_path: Path) -> None:
    for name in ("r.csv.gz", "r.csv"):  # the content tells, too
        (tmp_path / name).write_bytes(gzip.compress(b"a,b,1\n"))
        assert ratings_of(tmp_path / name) == [("a", "b", 1.0)]
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(b"a,b,1\n" * 1000)[:-20])
    with pytest.raises(InvalidRatingsFile, match=r"r\.csv\.gz"):
        read(tmp_path / "r.csv.gz")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("r.csv.gz", b"a,b,1\n", "expected a file compressed by gzip"),
        ("r.parquet.gz", gzip.compress(b"PAR1", mtime=0), r"expected text or JSONL in \.gz, got \.parquet; unpack it"),
        ("r.csv", b"PK\x03\x04rest", "a zip archive"),
        ("r.csv", b"PAR1rest", r"Parquet \(name it \.parquet\)"),
        ("r.csv", "user,item\n".encode("utf-16"), "UTF-16"),
        ("r.csv.zst", b"\x28\xb5\x2f\xfdrest", "zstandard"),
    ],
)
def test_other_kinds_of_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidRatingsFile, match=reason):
        read(tmp_path / name)


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".mat", ".parquet", ".jsonl", ".csv.gz"])
def test_what_is_no_file_is_refused_by_name_and_at_once(tmp_path: Path, suffix: str) -> None:
    pipe, folder, zeros = (tmp_path / f"{name}{suffix}" for name in ("pipe", "folder", "zeros"))
    os.mkfifo(pipe)
    folder.mkdir()
    zeros.symlink_to("/dev/zero")
    for path, kind in ((pipe, "a named pipe"), (folder, "a folder"), (zeros, "a character device")):
        with pytest.raises(InvalidRatingsFile, match=f"Invalid {path}: expected a file, got {kind}"):
            read(path)


def test_missing_files(tmp_path: Path) -> None:
    for name in ("a.csv", "a.parquet", "a.npz", "a.mat"):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / name)
