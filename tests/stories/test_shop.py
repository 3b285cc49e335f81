"""A shop of 200 products: what is bought leaves the lists, and filters hold."""

from nearfield_client import Nearfield
from nearfield_client.generated.api.recommendations import recommend_user
from nearfield_client.generated.models import RecommendUserFilter

KINDS = ("tea", "coffee", "honey", "bread")
N_PRODUCTS = 200


def test_a_shop_opens(client: Nearfield) -> None:
    # The catalog: 50 products of each kind, at 1 to 50.
    with client.items() as items:
        for number in range(N_PRODUCTS):
            kind, price = KINDS[number % 4], 1 + number // 4
            items.add({"item": f"{kind}-{price}", "tags": {"kind": [kind]}, "numbers": {"price": price}})
    assert items.accepted == N_PRODUCTS
    with client.events() as sold:
        for customer in range(40):
            for step in range(5):
                item = f"{KINDS[customer % 4]}-{1 + (customer + step * 3) % 50}"
                sold.add({"user": f"customer-{customer}", "item": item, "type": "purchase"})

    # What ann puts into her cart and buys is not offered to her again.
    client.event("ann", "tea-1", "cart")
    client.event("ann", "tea-1", "purchase")
    assert client.user_events("ann").events[0].strength == 13.0
    offered = [one.item for one in client.recommend("ann", n=100).items]
    assert len(offered) > 20
    assert "tea-1" not in offered

    # A page of honey at 20 at most shows nothing else, and says how many products pass.
    cheap = RecommendUserFilter.from_dict({"tag.kind": "honey", "max.price": "20"})
    listed = recommend_user.sync("ann", client=client, n=100, filter_=cheap)
    assert listed.eligible == 20
    assert listed.items
    assert all(one.item.startswith("honey-") and int(one.item[6:]) <= 20 for one in listed.items)

    # A product that is sold out is not offered until it is back.
    best = listed.items[0].item
    client.patch_items([{"item": best, "available": False}])
    assert best not in [one.item for one in client.recommend("ann", n=100, filter_=cheap).items]
