"""A newsroom: articles come and go, readers click, and what is read now counts more than what was read for long."""

import time

from nearfield_client import Nearfield

DAY_S = 86_400


def test_a_day_in_a_newsroom(client: Nearfield) -> None:
    now = time.time()
    # In the morning the newsroom has six articles, and the election of last week was read most.
    with client.items() as items:
        for article in ("election", "budget", "storm", "derby", "opera", "recipe"):
            items.add({"item": article, "title": f"All about the {article}"})
    with client.events() as clicks:
        for reader in range(20):
            clicks.add({"user": f"old-{reader}", "item": "election", "type": "view", "timestamp": now - 5 * DAY_S})
        for reader in range(8):
            clicks.add({"user": f"new-{reader}", "item": "storm", "type": "view", "timestamp": now - 60})
    assert clicks.n_rejected == 0
    assert [one.item for one in client.popular(n=2).items] == ["election", "storm"]

    # The front page asks what is read now, and shows titles.
    trending = client.popular(n=2, half_life="1d", with_="title")
    assert [(one.item, one.title) for one in trending.items][:1] == [("storm", "All about the storm")]

    # A reader who has read the storm gets something else.
    client.event("ann", "storm", "view")
    assert "storm" not in [one.item for one in client.recommend("ann", n=6).items]

    # The election is withdrawn: nobody sees it any more. It comes back, corrected.
    client.patch_items([{"item": "election", "available": False}])
    assert "election" not in [one.item for one in client.recommend("bob", n=6).items]
    client.patch_items([{"item": "election", "available": True}])
    assert "election" in [one.item for one in client.recommend("bob", n=6).items]
