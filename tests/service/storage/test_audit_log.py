"""The audit log: whole lines, of all processes, in bounded files."""

import json
import multiprocessing
import os
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from service.base.errors import InvalidRequest
from service.storage import audit_log, files
from service.storage.audit_log import MAX_LINE, MAX_TEXT, AuditEntry, AuditLog

MAX_BYTES = 1 << 20


def entry(number: int, about: str = "") -> AuditEntry:
    return AuditEntry(audit_log.now(), "retrain", "done", "api", 202, f"job {number}{about}", "admin_key")


def objects(log: AuditLog, n: int) -> list[str | None]:
    """What all entries are about, newest first, read by pages of `n`."""
    found, cursor = list[str | None](), None
    while True:
        page = log.page(n, cursor)
        assert len(page.entries) == n or page.next is None
        found += [one.object for one in page.entries]
        if (cursor := page.next) is None:
            return found


def append_many(data: Path, first: int) -> None:
    for number in range(first, first + 50):
        AuditLog(data, MAX_BYTES).append(entry(number))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_pages_have_all_entries_newest_first(tmp_path: Path, n: int) -> None:
    log = AuditLog(tmp_path, MAX_BYTES)
    assert objects(log, n) == []
    for number in range(7):
        log.append(entry(number))
    assert objects(log, n) == [f"job {number}" for number in reversed(range(7))]
    page = log.page(2)
    log.append(entry(7))
    assert [one.object for one in log.page(2, page.next).entries] == ["job 4", "job 3"], "new entries move no page"


def test_an_entry_and_the_name_of_its_file_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int | Path] = []
    monkeypatch.setattr(files, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    monkeypatch.setattr(files, "sync", synced.append)
    log, folder = AuditLog(tmp_path, MAX_BYTES), tmp_path / audit_log.FOLDER
    for number in range(2):
        synced.clear()
        log.append(entry(number))
        (path,) = folder.glob("*.ndjson")
        assert synced == [path.stat().st_size, *([folder] if number == 0 else [])]


def test_processes_append_whole_lines(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append_many, args=(tmp_path, first)) for first in (0, 50, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert set(found := objects(AuditLog(tmp_path, MAX_BYTES), 33)) == {f"job {number}" for number in range(150)}
    assert len(found) == 150
    assert objects(AuditLog(tmp_path, MAX_BYTES), 1) == found
    (path,) = (tmp_path / audit_log.FOLDER).glob("*.ndjson")
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 150
    assert {one.stat().st_mode & 0o077 for one in (path, path.parent)} == {0}


def test_the_oldest_file_goes_when_the_bound_is_reached(tmp_path: Path) -> None:
    log, folder = AuditLog(tmp_path, 16_000), tmp_path / audit_log.FOLDER
    with capture_logs() as lines:
        for number in range(300):
            log.append(entry(number, " " + "x" * 100))
            assert sum(path.stat().st_size for path in folder.iterdir()) <= 16_000
    found = objects(log, 10)
    assert [str(one).split()[1] for one in found] == [str(number) for number in range(299, 299 - len(found), -1)]
    assert sum(path.stat().st_size for path in folder.iterdir()) > 16_000 * 0.7
    assert {line["event"] for line in lines} == {"the oldest entries of the audit log are removed"}


def test_a_new_month_begins_a_file_and_a_clock_that_goes_back_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(tmp_path, MAX_BYTES)
    for number, month in enumerate(("2026-11", "2026-12", "2026-11", "2027-01")):
        monkeypatch.setattr("time.strftime", lambda *_, month=month: month)
        log.append(entry(number))
    names = [path.stem for path in sorted((tmp_path / audit_log.FOLDER).glob("*.ndjson"))]
    assert names == ["2026-11-0001", "2026-12-0001", "2027-01-0001"]
    assert objects(log, 1) == objects(log, 3) == ["job 3", "job 2", "job 1", "job 0"]


def test_a_torn_or_altered_line_is_shown_and_loses_no_other(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, MAX_BYTES)
    log.append(entry(0))
    (path,) = (tmp_path / audit_log.FOLDER).glob("*.ndjson")
    with path.open("ab") as file:
        file.write(b'{"at": "2026')
    assert [one.action for one in log.page(9).entries] == ["retrain"], "perhaps it is just being written"
    log.append(entry(1))
    assert [one.action for one in log.page(9).entries] == ["retrain", "unreadable line", "retrain"]
    text = path.read_bytes()
    for at in range(len(text) + 2):
        if at == 0 or text[at - 1 : at] == b"\n":
            assert len(log.page(9, f"{path.stem}:{at}").entries) == text[:at].count(b"\n")
        else:
            with pytest.raises(InvalidRequest, match="Invalid cursor"):
                log.page(9, f"{path.stem}:{at}")


def test_a_line_is_bounded_whatever_a_client_sends(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, MAX_BYTES)
    long = "\x01" * 10_000
    entry = AuditEntry(at=audit_log.now(), action="a", outcome="done", via="api", object=long, key=long, account=long)
    log.append(msgspec.structs.replace(entry, address=long, request_id=long))
    (path,) = (tmp_path / audit_log.FOLDER).glob("*.ndjson")
    assert path.stat().st_size < MAX_LINE
    assert len(log.page(1).entries) == 1
    for _ in range(2):
        log.append(msgspec.structs.replace(entry, key="é\udc80" * MAX_TEXT, address=long, request_id=long))
    assert len(objects(log, 1)) == 3
    assert log.page(1).entries[0].key == "é?" * (MAX_TEXT // 2)


@pytest.mark.parametrize(
    "cursor",
    [
        *(
            "x",
            "{month}",
            "{month}-0001",
            "{month}-0001:-1",
            "{month}-0001:+1",
            "../../{month}-0001:0",
            "{month}-0001:0\n",
        ),
        *("2025-13-0001:0", "2025-00-0001:0", "2025-1-0001:0", "0000-11-0001:0", "-2025-11-0001:0", "2025-11-0000:0"),
        *("{month}-0001:00", "{month}-0001:1", "{month}-0001:999999", "{month}-0001:9999999999999", "{month}-0002:0"),
        *("2099-01-0001:0", "{month}-00001:0", "2025-11-0001:٣", "2025-1١-0001:0", "2025-11-0001:" + 80 * "9"),
    ],
)
def test_what_is_no_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    log = AuditLog(tmp_path, MAX_BYTES)
    cursor = cursor.format(month=audit_log.now()[:7])
    for _ in range(2):  # without entries and with one
        with pytest.raises(InvalidRequest, match="expected `next` of a page of the audit log"):
            log.page(1, cursor)
        log.append(entry(0))


def test_a_cursor_of_a_file_that_was_removed_has_nothing_before_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, MAX_BYTES)
    log.append(entry(0))
    assert log.page(1, "2020-01-0001:500") == audit_log.AuditPage([], None)
