"""The bridge from Kafka, beside a Kafka and a service of lists: what is posted, committed, and when."""

import json
import shutil
import ssl
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest

from service.__main__ import run
from service.cli import importer
from service.cli.client import RequestFailed
from service.extras.kafka import bridge, kafka_bridge
from service.extras.kafka.kafka_bridge import Bridge, BridgeFailed
from tests.service.cli import broker

TOPIC = "ratings"


class Partition(NamedTuple):
    topic: str
    partition: int
    offset: int = 0
    metadata: str | None = None
    error: str | None = None


class Message(NamedTuple):
    at: int
    content: bytes | None
    of: int = 0
    fault: Any = None

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self.of

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes | None:
        return self.content

    def error(self) -> Any:
        return self.fault


class Fault(NamedTuple):
    is_fatal: bool
    called: str = "_TRANSPORT"

    def fatal(self) -> bool:
        return self.is_fatal

    def name(self) -> str:
        return self.called

    def str(self) -> str:
        return "broken"


class Kafka:
    """Messages of partitions, what is committed, and all that happened in order."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.committed_by_place: dict[int, Partition] = {}
        self.happened: list[Any] = []
        self.refusal: str | None = None
        self.identity, self.longest, self.marks = "", 1 << 20, dict[str, int]()

    @property
    def posts(self) -> list[Any]:
        return [one for one in self.happened if one[0] == "post"]

    def add(self, *offsets: int, of: int = 0) -> None:
        self.messages += [
            Message(n, json.dumps({"user": "u", "item": f"i{n}", "rating": 1}).encode(), of) for n in offsets
        ]


class Consumer:
    """A member of the group, which begins at what is committed."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.n_read = 0

    def subscribe(self, topics: list[str], on_assign: Any, on_revoke: Any) -> None:
        assert topics == [TOPIC]
        self.on_revoke = on_revoke
        on_assign(self, [Partition(TOPIC, 0), Partition(TOPIC, 1)])

    def consume(self, num_messages: int, _timeout: float) -> list[Any]:
        found, self.n_read = self.kafka.messages[self.n_read :][:num_messages], len(self.kafka.messages)
        begins = {n: one.offset for n, one in self.kafka.committed_by_place.items()} if found else {}
        return [one for one in found if one.at >= begins.get(one.of, 0)]

    def commit(self, *, offsets: list[Partition], asynchronous: bool) -> list[Partition]:
        assert not asynchronous
        (one,) = offsets
        self.kafka.happened.append(("commit", one.partition, one.offset, one.metadata))
        self.kafka.committed_by_place[one.partition] = one
        return [one._replace(error=self.kafka.refusal)]

    def committed(self, partitions: list[Partition], _timeout: float) -> list[Partition]:
        return [self.kafka.committed_by_place.get(one.partition, one._replace(offset=-1001)) for one in partitions]


class Service:
    """Answers from a script of statuses, then takes everything."""

    address = "http://service"

    def __init__(self, kafka: Kafka, *script: int | None) -> None:
        self.kafka, self.script = kafka, list(script)

    def post_lines(self, path: str, lines: bytes, source: str, offset: int) -> dict[str, Any]:
        items = [json.loads(line)["item"] if line.strip() else None for line in lines.split(b"\n")]
        self.kafka.happened.append(("post", path, source, offset, items))
        if len(lines) > self.kafka.longest:
            raise Refused(413)
        if self.script and (status := self.script.pop(0)) != 202:
            raise Refused(status)
        bad = [{"index": n, "line": n + 1, "error": "bad"} for n, item in enumerate(items) if item == "i13"]
        skipped = len(items) if offset <= self.kafka.marks.get(source, -1) else 0
        self.kafka.marks[source] = max(offset, self.kafka.marks.get(source, -1))
        accepted = len(items) - len(bad)
        return {"accepted": accepted, "rejected": bad, "stream_id": "1-0", "skipped": skipped}


class Refused(RequestFailed):
    def __init__(self, status: int | None) -> None:
        super().__init__("no", "no")
        self.code = status


class Killed(Exception):
    pass


def started(kafka: Kafka, *script: int | None, sleep: Any = None) -> Bridge:
    client: Any = Service(kafka, *script)
    member = Bridge(
        Consumer(kafka), client, "/ratings", Partition, sleep or (lambda _: None), lambda topic: kafka.identity
    )
    member._consumer.subscribe([TOPIC], on_assign=member._assigned, on_revoke=member._revoked)
    return member


def post(last: int, *items: str | None, of: int = 0, identity: str = "") -> tuple[Any, ...]:
    return "post", "/ratings", f"kafka:{TOPIC}/{of}{identity and '@'}{identity}", last, list(items)


def test_a_batch_is_committed_once_it_is_taken() -> None:
    kafka = Kafka()
    kafka.add(0, 1, 4)
    kafka.add(7, of=1)
    started(kafka).step()
    assert kafka.happened == [
        ("commit", 0, 0, "4"), post(4, "i0", "i1", "i4"), ("commit", 0, 5, ""),
        ("commit", 1, 7, "7"), post(7, "i7", of=1), ("commit", 1, 8, ""),
    ]  # fmt: skip


def test_the_service_may_be_away_for_as_long_as_it_likes() -> None:
    kafka, pauses = Kafka(), list[float]()
    kafka.add(3)
    started(kafka, *[503, 429, None] * 100, sleep=pauses.append).step()
    assert kafka.happened == [("commit", 0, 3, "3"), *[post(3, "i3")] * 301, ("commit", 0, 4, "")]
    assert sum(pauses) > importer.PATIENCE_S
    assert max(pauses) == importer.LONGEST_WAIT_S


def test_a_refusal_ends_the_bridge_and_commits_nothing() -> None:
    kafka = Kafka()
    kafka.add(3)
    with pytest.raises(importer.ImportFailed, match="http://service did not take the batch"):
        started(kafka, 401).step()
    assert kafka.committed_by_place[0].offset == 3


@pytest.mark.parametrize("is_posted", [False, True])
def test_who_comes_after_a_crash_forms_the_same_batch_again(is_posted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka()
    kafka.add(0, 1, 2)
    first = started(kafka)
    first.step()
    kafka.add(3, 4)

    commits = first._consumer.commit

    def die(*_: object, **__: object) -> Any:
        raise Killed

    def commit(*, offsets: list[Partition], asynchronous: bool) -> list[Partition]:
        return commits(offsets=offsets, asynchronous=asynchronous) if offsets[0].metadata else die()

    monkeypatch.setattr(first._client, "post_lines", first._client.post_lines if is_posted else die)
    monkeypatch.setattr(first._consumer, "commit", commit)
    with pytest.raises(Killed):
        first.step()
    kafka.happened.clear()
    kafka.add(5, 6)
    started(kafka).step()
    assert kafka.happened == [
        ("commit", 0, 3, "4"), post(4, "i3", "i4"), ("commit", 0, 5, ""),
        ("commit", 0, 5, "6"), post(6, "i5", "i6"), ("commit", 0, 7, ""),
    ]  # fmt: skip


def test_a_batch_that_comes_in_pieces_is_complete_before_it_is_posted() -> None:
    kafka = Kafka()
    kafka.committed_by_place[0] = Partition(TOPIC, 0, 3, "5")
    member = started(kafka)
    kafka.add(3)
    member.step()
    assert kafka.happened == []
    kafka.add(4, 6)  # 5 is not there any more: Kafka has compacted the topic
    member.step()
    assert [one for one in kafka.happened if one[0] == "post"] == [post(4, "i3", "i4"), post(6, "i6")]


def test_a_partition_that_another_member_gets_is_left_to_it() -> None:
    kafka = Kafka()
    kafka.committed_by_place[0] = Partition(TOPIC, 0, 3, "5")
    member = started(kafka)
    kafka.add(3)
    member.step()
    member._consumer.on_revoke(member._consumer, [Partition(TOPIC, 0)])
    kafka.add(6)
    member.step()
    assert [one for one in kafka.happened if one[0] == "post"] == [post(6, "i6")]


def test_what_the_service_refuses_of_a_batch_is_told_by_its_offset(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = Kafka()
    kafka.add(12, 13)
    kafka.messages += [Message(14, None), Message(15, b'{"item":\n"i15"}')]
    started(kafka).step()
    assert kafka.happened[1:] == [post(15, "i12", "i13", None, "i15"), ("commit", 0, 16, "")]
    assert "offset=13" in capsys.readouterr().out


def test_a_topic_that_is_made_again_is_a_new_source() -> None:
    kafka = Kafka()
    kafka.identity = "cluster.first"
    kafka.add(5, 6)
    started(kafka).step()
    kafka.messages, kafka.identity, kafka.committed_by_place = [], "cluster.second", {}
    kafka.add(0, 1)
    started(kafka).step()
    assert kafka.posts == [
        post(6, "i5", "i6", identity="cluster.first"),
        post(1, "i0", "i1", identity="cluster.second"),
    ]


def test_a_topic_that_is_made_again_under_the_bridge_is_a_new_source(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = Kafka()
    kafka.identity = "cluster.first"
    kafka.add(5, 6)
    member = started(kafka)
    member.step()
    kafka.committed_by_place, kafka.identity = {}, "cluster.second"
    kafka.add(7, 0, 1)  # read at once: the last of the old topic, and the first ones of the new one
    member.step()
    kafka.add(2)
    member.step()
    assert kafka.posts[1:] == [
        post(7, "i7", identity="cluster.first"),
        post(1, "i0", "i1", identity="cluster.second"),
        post(2, "i2", identity="cluster.second"),
    ]
    told = capsys.readouterr().out
    assert "offsets went back: the topic was made again" in told
    assert "messages skipped" not in told


def test_offsets_that_go_back_in_the_same_topic_are_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = Kafka()
    kafka.add(50, 51)
    member = started(kafka)
    member.step()
    kafka.committed_by_place = {}
    for offset in (0, 1):
        kafka.add(offset)
        member.step()
    told = capsys.readouterr().out
    assert "offsets went back" in told
    assert "expected=52" in told
    assert "DELETE http://service/admin/sources/kafka%3Aratings%2F0" in told
    assert told.count("messages skipped") == 1  # and not for each batch of a topic that is read again
    kafka.marks.clear()
    kafka.add(2)
    member.step()
    assert kafka.posts[-1] == post(2, "i2")


def test_a_repeated_batch_is_no_reason_to_warn(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = Kafka()
    kafka.committed_by_place[0] = Partition(TOPIC, 0, 3, "4")
    kafka.marks[f"kafka:{TOPIC}/0"] = 4
    kafka.add(3, 4, 5)
    started(kafka).step()
    assert kafka.posts == [post(4, "i3", "i4"), post(5, "i5")]
    told = capsys.readouterr().out
    assert "messages skipped" not in told
    assert "went back" not in told


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        ("4", [post(4, "i3", "i4"), post(6, "i5", "i6", identity="c.new")]),  # of a bridge without identities
        ("4 c.new", [post(4, "i3", "i4", identity="c.new"), post(6, "i5", "i6", identity="c.new")]),
        ("4 c.old", [post(6, "i3", "i4", "i5", "i6", identity="c.new")]),  # a topic that is gone
    ],
)
def test_a_batch_that_was_begun_keeps_its_source_unless_its_topic_is_gone(planned: str, expected: list[Any]) -> None:
    kafka = Kafka()
    kafka.identity = "c.new"
    kafka.committed_by_place[0] = Partition(TOPIC, 0, 3, planned)
    kafka.add(3, 4, 5, 6)
    started(kafka).step()
    assert kafka.posts == expected
    assert kafka.committed_by_place[0] == Partition(TOPIC, 0, 7, "")


def test_what_was_held_of_a_topic_that_is_gone_is_posted_first() -> None:
    kafka = Kafka()
    kafka.identity = "c.old"
    kafka.committed_by_place[0] = Partition(TOPIC, 0, 3, "5 c.old")
    kafka.add(3, 4)
    member = started(kafka)
    member.step()
    kafka.identity, kafka.committed_by_place = "c.new", {}
    kafka.add(0)
    member.step()
    assert kafka.posts == [post(4, "i3", "i4", identity="c.old"), post(0, "i0", identity="c.new")]


@pytest.mark.parametrize("offsets", [[7], [6, 7, 8], [7, 8], [5, 6, 7]])
def test_a_message_that_no_body_may_hold_is_refused_alone(
    offsets: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = Kafka()
    kafka.longest = 300
    kafka.add(*offsets)
    long = json.dumps({"user": "u", "item": "i7", "rating": 1, "note": "x" * 300}).encode()
    kafka.messages = [one._replace(content=long) if one.at == 7 else one for one in kafka.messages]
    started(kafka).step()
    assert kafka.committed_by_place[0] == Partition(TOPIC, 0, offsets[-1] + 1, "")
    assert sorted(kafka.marks.values()) == ([] if offsets == [7] else [max(n for n in offsets if n != 7)])
    told = capsys.readouterr().out
    assert "message refused" in told
    assert "offset=7" in told
    assert "refused_in_all=1" in told
    kafka.happened.clear()
    started(kafka).step()
    assert kafka.posts == []


def test_a_name_of_a_source_is_never_too_long() -> None:
    names = {kafka_bridge.Partition("t" * 249, n).source("c" * 22 + "." + "i" * 22) for n in range(3)}
    assert len(names) == 3
    assert max(map(len, names)) <= 256


class Admin:
    """What describes topics: with an id, without one, or not at all."""

    outcome: Any = None

    def __init__(self, properties: dict[str, Any]) -> None:
        assert properties == {"bootstrap.servers": "b:9", "security.protocol": "SSL"}

    def describe_topics(self, topics: list[str], request_timeout: float) -> dict[str, Any]:
        assert request_timeout < 60
        return {topics[0]: self}

    def result(self) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return SimpleNamespace(topic_id=self.outcome)


class Uuid(NamedTuple):
    high: int
    low: int

    def get_most_significant_bits(self) -> int:
        return self.high

    def get_least_significant_bits(self) -> int:
        return self.low

    def __str__(self) -> str:
        return f"id{self.high}"


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Uuid(7, 1), "c.id7"), (Uuid(0, 0), "c"), (None, "c"), (RuntimeError("not allowed"), "c")],
)
def test_an_identity_has_the_ids_of_cluster_and_topic(
    outcome: Any, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = SimpleNamespace(__name__="stand_in", KafkaException=RuntimeError, TopicCollection=list)
    monkeypatch.setitem(__import__("sys").modules, "stand_in.admin", SimpleNamespace(AdminClient=Admin))
    monkeypatch.setattr(Admin, "outcome", outcome)
    consumer = SimpleNamespace(list_topics=lambda topic, timeout: SimpleNamespace(cluster_id="c"))
    properties = bridge.settings("b:9", "g") | {"security.protocol": "SSL"}
    assert kafka_bridge.identity_of(library, consumer, properties, "t") == expected
    assert ("not allowed" in capsys.readouterr().out) == isinstance(outcome, Exception)


def test_batches_are_bounded_by_number_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "BATCH", 3)
    monkeypatch.setattr(importer, "BATCH_BYTES", 20)
    values = [b"x", b"x", b"x", b"x", b"y" * 19, b"y" * 50, b"x"]
    found = importer.batches([Message(n, value) for n, value in enumerate(values)], kafka_bridge.length_of)
    assert [[message.at for message in batch] for batch in found] == [[0, 1, 2], [3], [4], [5], [6]]


def test_kafka_may_err_but_not_for_good() -> None:
    kafka = Kafka()
    kafka.messages = [Message(0, None, fault=Fault(False))]
    kafka.add(1)
    started(kafka).step()
    assert post(1, "i1") in kafka.happened
    kafka.messages.append(Message(2, None, fault=Fault(True)))
    with pytest.raises(BridgeFailed, match="Kafka failed"):
        started(kafka).step()


@pytest.mark.parametrize("name", sorted(kafka_bridge.LASTING))
def test_what_only_other_properties_or_rights_can_mend_ends_the_bridge(name: str) -> None:
    kafka = Kafka()
    kafka.messages = [Message(0, None, fault=Fault(False, name))]
    with pytest.raises(BridgeFailed, match="Kafka failed: broken"):
        started(kafka).step()


def test_a_refused_commit_ends_the_bridge() -> None:
    kafka = Kafka()
    kafka.add(1)
    kafka.refusal = "not a member"
    with pytest.raises(BridgeFailed, match="Kafka refused to commit offset 1 of kafka:ratings/0: not a member"):
        started(kafka).step()
    assert len(kafka.happened) == 1


COMMAND = ["bridge", "kafka", "--bootstrap", "localhost:9", "--topic", "t", "--group", "g"]


def test_the_command_says_what_it_needs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    assert run(COMMAND) == 2
    assert "pip install '.[kafka]' in a checkout" in capsys.readouterr().err
    assert run([*COMMAND, "--key-env", "NO_KEY"]) == 2
    assert "Invalid variable NO_KEY: expected a key, got none" in capsys.readouterr().err
    assert run(["bridge"]) == 0
    assert "kafka" in capsys.readouterr().out


class KafkaException(Exception):
    """As in `confluent_kafka`: its argument has librdkafka's message."""


class TakenConsumer:
    """What `confluent_kafka.Consumer` is called with; it does not know ssl.ca."""

    taken: ClassVar[dict[str, Any]] = {}

    def __init__(self, properties: dict[str, Any]) -> None:
        if "ssl.ca" in properties:
            raise KafkaException(SimpleNamespace(str=lambda: 'No such configuration property: "ssl.ca"'))
        TakenConsumer.taken = {name: value for name, value in properties.items() if name != "error_cb"}

    def subscribe(self, topics: list[str], **_: Any) -> None:
        raise KafkaException("no brokers")

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> type[TakenConsumer]:
    """Set when the command has made its consumer; the command then ends, since there is no broker."""
    library = SimpleNamespace(Consumer=TakenConsumer, KafkaException=KafkaException, TopicPartition=Partition)
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", library)
    monkeypatch.setattr(bridge, "check_answers", lambda client: None)
    TakenConsumer.taken = {}
    return TakenConsumer


SECURE = """
# how to reach the brokers
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512
  sasl.username=nearfield
sasl.password=a=b #c
ssl.ca.location=/etc/kafka/ca.pem
"""


def with_config(folder: Path, text: str) -> int:
    path = folder / "client.properties"
    path.write_text(text, "utf-8")
    return run([*COMMAND, "--config", str(path)])


def test_properties_of_a_file_reach_the_library(tmp_path: Path, taken: type[TakenConsumer]) -> None:
    assert with_config(tmp_path, SECURE) == 1
    assert taken.taken == bridge.settings("localhost:9", "g") | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "nearfield",
        "sasl.password": "a=b #c",
        "ssl.ca.location": "/etc/kafka/ca.pem",
    }
    assert run(COMMAND) == 1
    assert taken.taken == bridge.settings("localhost:9", "g")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group.id=mine", "Invalid property of FILE: expected the option --group instead, got group.id"),
        ("\nmetadata.broker.list=b:1", "expected the option --bootstrap instead, got metadata.broker.list"),
        ("enable.auto.commit=true", "expected a property that the bridge does not set itself, got enable.auto.commit"),
        ("error_cb=print", "Invalid property of FILE: expected a property that is text, got error_cb"),
        ("# c\n\nsasl.password secret", "Invalid line 3 of FILE: expected name=value, got no =\n"),
        ("=secret", "Invalid line 1 of FILE: expected name=value, got no name\n"),
        ("ssl.ca=secret", 'Invalid properties of FILE: No such configuration property: "ssl.ca"'),
        ("\udcff", "Invalid --config: expected a file of properties, got FILE: it is not UTF-8"),
    ],
)
def test_bad_properties_are_refused_by_name(
    text: str, message: str, tmp_path: Path, taken: type[TakenConsumer], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert run([*COMMAND, "--config", str(path)]) == 2
    told = capsys.readouterr().err
    assert message.replace("FILE", str(path)) in told
    assert "secret" not in told
    assert taken.taken == {}


def test_a_missing_file_of_properties_is_named(
    tmp_path: Path, taken: type[TakenConsumer], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, "--config", str(tmp_path / "none")]) == 2
    assert f"got {tmp_path / 'none'}: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no.such=1", 'No such configuration property: "no.such"'),
        ("security.protocol=TLS", 'Invalid value "TLS" for configuration property "security.protocol"'),
    ],
)
def test_librdkafka_says_what_is_wrong_with_a_property(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: the extra kafka")
    monkeypatch.setattr(bridge, "check_answers", lambda client: None)
    assert with_config(tmp_path, text) == 2
    assert f"Invalid properties of {tmp_path / 'client.properties'}: {message}" in capsys.readouterr().err


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate and the key of the broker."""
    folder = tmp_path_factory.mktemp("tls")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, which makes the certificate")
    options = "-x509 -newkey rsa:2048 -nodes -subj /CN=broker -addext subjectAltName=IP:127.0.0.1"
    files = "-keyout", str(folder / "key.pem"), "-out", str(folder / "ca.pem")
    command = ["openssl", "req", *options.split(), *files]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def properties(**own: object) -> str:
    own = {"sasl.mechanism": "PLAIN", "sasl.username": "nearfield", "sasl.password": "a=b #c"} | own
    return "".join(f"{name}={value}\n" for name, value in own.items())


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({}, None),
        ({"sasl.password": "a=b"}, "SASL authentication error: not known"),
        ({"ssl.ca.location": ""}, "broker certificate could not be verified"),
    ],
    ids=["right", "wrong password", "unknown certificate"],
)
def test_the_library_logs_in_by_the_file_or_says_once_why_not(
    own: dict[str, str],
    message: str | None,
    certificate: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """SASL over TLS with librdkafka, to a broker that knows no more than to log in."""
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: the extra kafka")
    monkeypatch.setattr(bridge, "check_answers", lambda client: None)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate / "ca.pem", certificate / "key.pem")
    ca = {"ssl.ca.location": certificate / "ca.pem"} | own
    path = tmp_path / "client.properties"
    path.write_text(properties(**{"security.protocol": "SASL_SSL", **{k: v for k, v in ca.items() if v}}), "utf-8")
    with broker.serving("nearfield", "a=b #c", tls) as one:
        command = ["bridge", "kafka", "--bootstrap", one.address, "--topic", "t", "--group", "g", "--config", str(path)]
        if message is None:  # it is in, and would read for ever
            stepping = Bridge.step
            monkeypatch.setattr(Bridge, "step", lambda self: raised(KeyboardInterrupt) if one.asked else stepping(self))
            assert run(command) == 0
            assert one.n_logins > 0
            return
        assert run(command) == 1
        told = capsys.readouterr().err
        assert told.count("Kafka failed:") == told.count(message) == 1
        assert "a=b" not in told
        assert one.asked == []


def raised(error: type[BaseException]) -> None:
    raise error
