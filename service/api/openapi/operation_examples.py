"""Examples of keys, webhooks and sources, for `service.api.openapi.examples`."""

from __future__ import annotations

from typing import Any

KEY_ID = "5f0e9d3c7a12"
WEBHOOK_ID = "0c4b7d8e21fa"

BODIES: dict[str, dict[str, Any]] = {
    "make_key": {
        "a key that may read": {"name": "shop front", "scope": "read"},
        "a key that expires": {"name": "audit", "scope": "admin", "expires": "2030-01-01T00:00:00Z"},
        "a key for one data set": {"name": "import", "scope": "write", "data_sets": ["default"]},
    },
    "make_webhook": {
        "trainings": {"url": "https://example.com/jobs", "events": ["train.succeeded", "train.failed"]},
        "all jobs": {"url": "https://example.com/jobs"},
    },
}
_key = {
    "id": KEY_ID,
    "name": "shop front",
    "scope": "read",
    "data_sets": None,
    "created_ms": 1795232220635,
    "ends_with": "x7Qa",
    "expires": None,
    "last_used": "2026-11-21T03:37:17Z",
}
_webhook = {"id": WEBHOOK_ID, **BODIES["make_webhook"]["trainings"], "created_ms": 1795232220635}
_attempt = {
    "job": "7008c696f6c7",
    "attempt": 2,
    "outcome": "failed",
    "error": "expected a status of 2xx, got 500",
    "ended_ms": 1795232239901,
}
_listed = {
    **_webhook,
    "waiting": 1,
    "next_ms": 1795232243901,
    "delivered": 12,
    "given_up": 0,
    "last": _attempt,
}
_entry = {
    "at": "2026-11-21T03:37:17.042Z",
    "action": "revoke_key",
    "outcome": "done",
    "via": "api",
    "status": 200,
    "object": f"key {KEY_ID}",
    "key": "admin_key",
    "account": None,
    "address": "127.0.0.1",
    "request_id": "e4497f540c68-a",
    "data_set": "default",
    "left_out": 0,
}
_source = {"source": "kafka:ratings/0", "key": "write_key", "offset": 1300, "stream_id": "1795232220639-0"}
COMPONENTS: dict[str, Any] = {
    "AuditEntry": _entry,
    "AuditPage": {"entries": [_entry], "next": "2026-11-0001:1042"},
    "KeyBody": BODIES["make_key"]["a key that may read"],
    "KeyList": {"keys": [_key]},
    "ListedKey": _key,
    "WebhookBody": BODIES["make_webhook"]["trainings"],
    "Webhook": _webhook,
    "MadeWebhook": {**_webhook, "secret": "whsec_" + 42 * "A" + "E="},
    "Attempt": _attempt,
    "ListedWebhook": _listed,
    "WebhookList": {"webhooks": [_listed]},
    "ListedSource": _source,
    "RemovedSource": {"stream_id": "1795232220645-0", "removed": [_source]},
    "SourceList": {"sources": [_source], "n_sources": 1, "as_of": "1795232220639-0"},
    "MadeKey": {**_key, "key": "nf_GkqJ2yRj6v0n5L8sT1uW4zB7cE9fH3iK_mN-pQrx7Qa", "note": None},
}
