"""A podcast player: listeners come back to the same shows, so a list may have what they know."""

from nearfield_client import Nearfield


def test_listeners_come_back(client: Nearfield) -> None:
    with client.events() as played:
        for listener in range(12):
            for show in ("morning", "science", "chess")[: 1 + listener % 3]:
                for _ in range(3):
                    played.add({"user": f"listener-{listener}", "item": show, "type": "view"})
    assert (played.accepted, played.n_rejected) == (72, 0)

    # Ann has heard the morning show on three days. The player shows how often.
    for day in range(3):
        client.event("ann", "morning", "view", event_id=f"day-{day}")
    client.event("ann", "morning", "view", event_id="day-2")  # sent again after a lost connection: counted once
    (heard,) = client.user_events("ann").events
    assert (heard.item, heard.strength) == ("morning", 3.0)

    # "Discover" leaves out what she knows, and "Continue" has it too.
    assert [one.item for one in client.recommend("ann").items] == ["science", "chess"]
    assert [one.item for one in client.recommend("ann", repeat="allow").items] == ["morning", "science", "chess"]

    # She dislikes chess: neither list has it from now on.
    client.event("ann", "chess", "dislike")
    assert [one.item for one in client.recommend("ann").items] == ["science"]
    assert [one.item for one in client.recommend("ann", repeat="allow").items] == ["morning", "science"]
