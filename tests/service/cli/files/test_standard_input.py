"""`nearfield import -`: what comes from standard input is read as a file of its kind would be."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import io as scipy_io

from service.__main__ import run
from service.cli.files import items_file, ratings_file, standard_input
from service.cli.files.errors import InvalidRatingsFile
from service.settings.errors import InvalidSetting

NOWHERE = "http://127.0.0.1:9"
MATRIX = np.array([[0.0, 2.0]])


def into_bytes(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


CONTENTS = {
    "csv": b"user,item,rating\n0,1,2\n",
    "tsv": b"\n0\t1\t2\r\n",
    "movielens": b"0::1::2\n",
    "jsonl": b'\xef\xbb\xbf\n {"user": "0", "item": "1", "rating": 2}\n',
    "csv.gz": gzip.compress(b"0,1,2\n"),
    "jsonl.gz": gzip.compress(b'{"user": "0", "item": "1", "rating": 2}'),
    "parquet": into_bytes(lambda file: pq.write_table(pa.table({"user": ["0"], "item": ["1"], "rating": [2.0]}), file)),
    "npz": into_bytes(lambda file: np.savez(file, m=MATRIX)),
    "mat": into_bytes(lambda file: scipy_io.savemat(file, {"fea": MATRIX})),
}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    return lambda content: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("kind", CONTENTS)
def test_the_format_is_recognized_by_the_content(kind: str, given: Callable[[bytes], None]) -> None:
    given(CONTENTS[kind])
    with standard_input.opened(Path("-"), None) as path:
        found = ratings_file.read(path)
    assert (found.users, found.items, found.values.tolist()) == (["0"], ["1"], [2.0])
    assert not path.exists()


def test_the_format_may_be_named(given: Callable[[bytes], None]) -> None:
    given(
        into_bytes(lambda file: scipy_io.savemat(file, {"fea": MATRIX}, format="4"))
    )  # it has no first bytes of its own
    with standard_input.opened(Path("-"), "mat") as path:
        assert ratings_file.read(path).items == ["1"]


def test_items_come_from_standard_input_too(given: Callable[[bytes], None]) -> None:
    given(b'{"item": "a", "tags": {"genre": ["x"]}}\n')
    with standard_input.opened(Path("-"), None) as path:
        assert items_file.read(path).elements == [{"item": "a", "tags": {"genre": ["x"]}}]


@pytest.mark.parametrize(
    "content", [b"", b"\x1f\x8bno gzip", gzip.compress(b"PAR1", mtime=0), b"PK\x03\x04", b"a,b,c\n", b"{}"]
)
def test_what_cannot_be_read_is_refused_under_its_name(content: bytes, given: Callable[[bytes], None]) -> None:
    given(content)
    with (
        pytest.raises(InvalidRatingsFile, match=r"of standard input: |Invalid standard input: ") as caught,
        standard_input.opened(Path("-"), None) as path,
    ):
        ratings_file.read(path)
    assert "nearfield-import" not in str(caught.value)


@pytest.mark.parametrize(("file", "name"), [("-", "xml"), ("ratings.csv", "csv")])
def test_a_format_of_something_else_is_refused(file: str, name: str) -> None:
    expected = rf"expected csv, .* of standard input, which is the file -, got {name} of"
    with pytest.raises(InvalidSetting, match=expected), standard_input.opened(Path(file), name):
        pass


def test_the_command_says_what_the_columns_mean(given: Callable[[bytes], None], capsys: pytest.CaptureFixture) -> None:
    given(b"movieId,userId\n1,2\n")
    assert run(["import", "-", "--url", NOWHERE]) == 1
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(
        "standard input: columns: user = userId, item = movieId; no ratings: every pair counts 1; text"
    )
