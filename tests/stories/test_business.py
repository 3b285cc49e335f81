"""A supplier of companies: few buyers, each with a click or two, and a product that only one has seen."""

from nearfield_client import Nearfield


def test_few_clicks_still_make_a_page(client: Nearfield) -> None:
    with client.items() as items:
        for number in range(30):
            items.add({"item": f"pump-{number:02d}", "title": f"Pump {number}"})
    with client.events() as clicks:
        for company in range(15):
            clicks.add({"user": f"company-{company}", "item": f"pump-{company % 5:02d}", "type": "view"})

    # A company that nobody knows gets what others click, and the answer says that it is not personal.
    listed = client.recommend("new-company", n=5)
    assert (listed.personalized, listed.fallback) == (False, "popular")
    assert {one.item for one in listed.items} == {f"pump-{number:02d}" for number in range(5)}

    # An employee tried the catalog before signing in with the company's account: one click changes the page.
    client.event("company-0", "pump-29", "view")
    assert not {"pump-00", "pump-29"} & {one.item for one in client.recommend("company-0", n=30).items}
    assert "pump-29" in [one.item for one in client.recommend("company-1", n=30).items]
