from service.api.door.connection_table import ConnectionLimits
from service.api.door.deadline import Deadline


def test_a_client_that_reads_a_long_answer_is_not_stalled_though_as_much_is_unsent() -> None:
    idle, reading = (Deadline(ConnectionLimits(8, send_s=20.0, sent_bytes=1000)) for _ in range(2))
    for second in range(0, 60, 5):
        assert idle.is_stalled(5000, second) == (second >= 20)
        assert not reading.is_stalled(5000, second)
        reading.note_read()
