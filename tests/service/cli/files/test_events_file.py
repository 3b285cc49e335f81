"""Files of events, as this service, Gorse, RetailRocket, Amazon Personalize and Google Analytics write them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.cli.files.errors import InvalidRatingsFile
from service.cli.files.events_file import Event, EventsFile, read
from service.cli.files.how import How
from service.cli.files.ratings_file import digest_of

S = 1_700_000_000.0


def written(folder: Path, name: str, content: str, **how: Any) -> EventsFile:
    (folder / name).write_text(content)
    return read(folder / name, How.of(of_events=True, **how))


@pytest.mark.parametrize(
    ("name", "content", "how", "expected"),
    [
        ("own.ndjson", '{"user":"u","item":"i","type":"dislike","value":2.0,"timestamp":1700000000.0}\n'
         '{"user":"v","item":"j","type":"purchase","value":1.0,"timestamp":1700000001.0,"event_id":"o1"}\n', {},
         [Event("u", "i", "dislike", 2, S, None), Event("v", "j", "purchase", 1, S + 1, "o1")]),
        ("gorse.csv", "feedback_type,user_id,item_id,value,time_stamp,comment\nread,u,i,0,2023-11-14 22:13:20,\n", {},
         [Event("u", "i", "read", None, S, None)]),
        ("gorse.json", '[{"FeedbackType":"star","UserId":"u","ItemId":"i","Timestamp":"2023-11-14T22:13:20Z"}]', {},
         [Event("u", "i", "star", None, S, None)]),
        ("retail.csv", "timestamp,visitorid,event,itemid,transactionid\n1700000000000,9,addtocart,3,\n",
         {"time_unit": "ms"}, [Event("9", "3", "addtocart", None, S, None)]),
        ("personalize.csv", "USER_ID,ITEM_ID,TIMESTAMP,EVENT_TYPE,EVENT_VALUE,EVENT_ID\n1,2,1700000000,Click,,e\n", {},
         [Event("1", "2", "click", None, S, "e")]),
        ("ga4.csv", "event_date,event_timestamp,event_name,user_id,user_pseudo_id,item_id\n"
         "20231114,1700000000000000,add_to_cart,,1.2,sku\n", {"time_unit": "us"},
         [Event("1.2", "sku", "add_to_cart", None, S, None)]),
        ("ga4.json", '{"event_name":"purchase","event_timestamp":1700000000000000,"user_pseudo_id":"p","items":'
         '[{"item_id":"a"},{"item_id":"b"}]}\n{"event_name":"page_view","event_timestamp":1700000000000000,'
         '"user_pseudo_id":"p","items":[]}', {"time_unit": "us"},
         [Event("p", "a", "purchase", None, S, None), Event("p", "b", "purchase", None, S, None)]),
        ("steam.csv", '9,"Some Game, The",purchase,1.0,0\n9,"Some Game, The",play,273.0,0\n',
         {"columns": "user,item,type,value,-"},
         [Event("9", "Some Game, The", type_, value, None, None) for type_, value in (("purchase", 1), ("play", 273))]),
        ("own.tsv", "who\twhat\tdid\tscore\n\"u\ti\tview\t2\n", {"user": "who", "item": "what", "type": "did",
         "rating": "score"}, [Event('"u', "i", "view", 2, None, None)]),
        ("semicolons.csv", "user;item;type\nu;i;view\n", {}, [Event("u", "i", "view", None, None, None)]),
        ("quoted.csv", 'user,item,type,text\nu,i,view,"a\nb"\nv,j,view,c\n', {},
         [Event("u", "i", "view", None, None, None), Event("v", "j", "view", None, None, None)]),
    ],
)  # fmt: skip
def test_columns_of_events_are_found_by_name(
    tmp_path: Path, name: str, content: str, how: dict[str, Any], expected: list[Event]
) -> None:
    assert written(tmp_path, name, content, **how).events == expected


def test_parquet_has_events_of_several_items_each_with_an_id(tmp_path: Path) -> None:
    items = [[{"item_id": "a"}, {"item_id": "b"}], [{"item_id": "c"}], []]
    columns = {"user_id": [1.0, 2.0, 3.0], "event_name": ["purchase", "view", "login"], "items": items}
    pq.write_table(pa.table({**columns, "event_id": ["o", "p", "q"]}), tmp_path / "e.parquet")
    file = read(tmp_path / "e.parquet")
    assert [(event.user, event.item, event.event_id) for event in file.events] == [
        ("1", "a", "o-0"),
        ("1", "b", "o-1"),
        ("2", "c", "p"),
    ]
    assert "3 rows, 1 without an item left out; types: purchase 2, view 1; no times" in file.columns


def test_the_oldest_event_comes_first_and_one_without_a_time_last(tmp_path: Path) -> None:
    lines = "u,a,view,\nu,b,view,1700000000\nu,c,view,1600000000\nu,d,view,1600000000\n"
    file = written(tmp_path, "e.csv", f"user,item,type,time\n{lines}")
    assert [event.item for event in file.events] == ["c", "d", "b", "a"]
    assert "times from 2020-09-13 to 2023-11-14, 1 without a time; the first: user u, item c, type view" in file.columns


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,item,rating\nu,i,5\n", "found no type among user, item, rating; name it by --type"),
        ("user,item,event,action\nu,i,a,b\n", "expected one column type, got several: event and action"),
        ("user,item,type\nu,,view\n", "line 2 .*expected 1 to 256 bytes, got 0 as item"),
        ("user,item,type\nNULL,i,view\n", "line 2 .*stands for a missing value"),
        ("user,item,type,value\nu,i,view,x\n", "line 2 .*expected a finite number, got 'x'"),
        ("user,item,type,value\nu,i,view,1e7\n", "line 2 .*expected at most 1e.06 as value"),
        ("user,item,type,time\nu,i,view,1700000000000\n", "--time-unit ms"),
        ("user,item,type\nu,i\n", "line 2 .*expected 3 columns, got 2"),
        ('user,item,type\nu,"i,view\n', "line 2 .*expected a closing quote"),
    ],
)
def test_what_is_no_event_is_named_or_left_out(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidRatingsFile, match=message):
        written(tmp_path, "e.csv", content)
    if "line 2" in message:
        header = content.partition("\n")[0]
        good = ",".join({"value": "1", "time": "1"}.get(name, f"good-{name}") for name in header.split(","))
        file = written(tmp_path, "e.csv", f"{content}{good}\n{good}\n{good}\n", skip_bad=True)
        assert [len(file.events), [bad.number for bad in file.bad]] == [3, [2]]


def test_events_in_pieces_of_json_may_lack_fields_but_not_needed_ones(tmp_path: Path) -> None:
    rows = [{"user": "u", "item": "i", "type": "view"}, {"user": "u", "item": "j", "type": "view", "value": 3}]
    lines = "\n".join(map(json.dumps, rows))
    assert [event.value for event in written(tmp_path, "e.jsonl", lines).events] == [None, 3]
    with pytest.raises(InvalidRatingsFile, match=r"line 3 .*found no type among user, item"):
        written(tmp_path, "e.jsonl", lines + '\n{"user": "u", "item": "i"}')


def test_the_digest_is_that_of_the_events(tmp_path: Path) -> None:
    digests, path = [], tmp_path / "e.csv"
    for text, how in (
        ("user,item,type\nu,i,view\n", How.of()),
        ("user,item,type\nu,i,view\n", How.of()),
        ("user,item,type\nu,j,view\n", How.of()),
        ("user,item,type\nu,i,view\n", How.of(time_unit="ms")),
    ):
        path.write_text(text)
        digests.append(digest_of(path, how))
    assert [digest == digests[0] for digest in digests] == [True, True, False, False]
