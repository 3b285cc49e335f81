"""Files with a few bytes changed, given to `nearfield import`: read, or refused in one line, never a traceback."""

import gzip
import io as memory
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import io, sparse

from service.__main__ import run
from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.ratings_matrix import read_matrix

N_MUTANTS = 25  # of each file
NOWHERE = "http://127.0.0.1:9"
MATRIX = np.array([[0, 2.5, 0], [1, 0, 0], [0, 4.5, 0], [0, 0, 3]])
ROWS = [(f"user-{n % 7}", f"item \u00e9 {n % 5}", n % 5 + 0.5, 1_700_000_000 + n) for n in range(40)]
CSV = "user,item,rating,timestamp\n" + "".join(f'{u},"{i}",{r},{t}\n' for u, i, r, t in ROWS)
JSONL = "".join(f'{{"user": "{u}", "item": "{i}", "rating": {r}, "timestamp": {t}}}\n' for u, i, r, t in ROWS)


def into_bytes(write: Callable[[memory.BytesIO], object]) -> bytes:
    file = memory.BytesIO()
    write(file)
    return file.getvalue()


def parquet(file: memory.BytesIO) -> None:
    names = ["user", "item", "rating", "timestamp"]
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*ROWS, strict=True)), strict=True))), file)


FILES = {
    "ratings.csv": CSV.encode(),
    "ratings.csv.gz": gzip.compress(CSV.encode(), mtime=0),
    "ratings.jsonl": JSONL.encode(),
    "ratings.parquet": into_bytes(parquet),
    "dense.npz": into_bytes(lambda file: np.savez_compressed(file, m=MATRIX)),
    "sparse.npz": into_bytes(lambda file: sparse.save_npz(file, sparse.csr_array(MATRIX), compressed=False)),
    "dense.mat": into_bytes(lambda file: io.savemat(file, {"fea": MATRIX, "note": "text"})),
    "sparse.mat": into_bytes(lambda file: io.savemat(file, {"fea": sparse.csc_array(MATRIX)})),
    "packed.mat": into_bytes(lambda file: io.savemat(file, {"fea": MATRIX}, do_compression=True)),
    "old.mat": into_bytes(lambda file: io.savemat(file, {"fea": MATRIX}, format="4")),
}


def mutant(content: bytes, chance: random.Random) -> bytes:
    """The same with a byte or several changed, a piece cut out or doubled, or the end missing."""
    data = bytearray(content)
    place = chance.randrange(len(data))
    length = chance.randrange(1, 20)
    match chance.randrange(5):
        case 0:
            data[place] ^= 1 << chance.randrange(8)
        case 1:
            data[place : place + length] = chance.randbytes(length)
        case 2:
            del data[place : place + length]
        case 3:
            data[place:place] = data[place : place + length]
        case _:
            del data[place:]
    return bytes(data)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_or_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, chance = tmp_path / name, random.Random(name)
    for _ in range(N_MUTANTS):
        path.write_bytes(mutant(FILES[name], chance))
        status = run(["import", str(path), "--url", NOWHERE])  # an error that is not foreseen is raised
        *before, last = capsys.readouterr().err.splitlines()
        was_read = status == 1 and "no service answers" in last
        assert was_read or (status == 2 and str(path) in last), last
        assert last.startswith("nearfield: ")
        assert len(before) == was_read  # which column is what


def test_a_file_that_crashes_the_reader_of_scipy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.cli.files.ratings_matrix.entries_of", os.kill)  # in the place of a segmentation fault
    with pytest.raises(InvalidRatingsFile, match="ended the process which read it"):
        read_matrix(ProcessOfItsOwn(), signal.SIGSEGV)  # type: ignore[arg-type]


class ProcessOfItsOwn:
    """Stands for the id of whatever process takes it out of a pickle."""

    suffix = ".mat"

    def __reduce__(self) -> tuple[Callable[[], int], tuple[()]]:
        return os.getpid, ()


@pytest.mark.parametrize("name", ["pipe", "text.csv"])
def test_negatives_that_are_no_text_are_refused_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text.csv").write_bytes(b"u,\xff\n")
    arguments = ["--model", str(tmp_path), "--test", str(tmp_path / "none.csv"), "--negatives", str(tmp_path / name)]
    assert run(["evaluate", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"nearfield: Invalid {tmp_path / name}: expected")


@pytest.mark.parametrize("name", FILES)
def test_the_file_as_it_was_is_read(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    assert run(["import", str(tmp_path / name), "--url", NOWHERE]) == 1
    assert "no service answers" in capsys.readouterr().err
