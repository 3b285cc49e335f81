"""Posts a rating, reads it back and a list, and takes the rating back. `helm test` runs it in a pod."""

import json
import os
import urllib.request

URL, KEY = os.environ["SERVICE_URL"], os.environ["API_KEY"]
USER, ITEM = "helm-test-user", "helm-test-item"


def ask(method, path, body=None):
    """The answer to a request."""
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers, method=method)  # noqa: S310 (our own service)
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.load(answer)


seen = ask("POST", "/ratings", {"user": USER, "item": ITEM, "rating": 1})["stream_id"]
try:
    rated = [one["item"] for one in ask("GET", f"/users/{USER}/ratings?wait_for={seen}")["ratings"]]
    if rated != [ITEM]:
        raise SystemExit(f"the rating was acknowledged and is not there: {rated}")
    listed = [one["item"] for one in ask("GET", f"/recommend/{USER}?n=5&wait_for={seen}")["items"]]
    if ITEM in listed:
        raise SystemExit(f"the list has what was rated just now: {listed}")
finally:
    ask("DELETE", f"/ratings/{USER}/{ITEM}")
print(f"rated, read back, and listed {len(listed)} items")
