"""Examples of jobs and models for the OpenAPI document, and the names that all examples share."""

from __future__ import annotations

from typing import Any

USER, ITEM, OTHER_ITEM = "ann", "synthetic-western-000", "synthetic-western-008"
POSITION, REQUEST_ID = "1795232220650-0", "e4497f540c68-a"
JOB, MODEL, VERSION = "884ff6e1abac", "als-implicit", "als-implicit-20261121T033717-b687"
METRICS = {"ndcg@10": 0.3127, "baseline_ndcg@10": 0.1406}
RETRAIN: dict[str, Any] = {
    "usual": {"algorithm": MODEL},
    "with parameters": {"algorithm": "culsh", "params": {"n_factors": 32}, "force": True},
    "a shadow under a name": {"algorithm": MODEL, "name": "home-b", "shadow": True},
}

_calibration = {
    "values": "ratings",
    "middle": 3.0,
    "scale": [1.0, 5.0],
    "is_damped": False,
    "typical": 0.6,
    "alpha": 12.5,
    "regularization": 0.02,
    "density": 0.0964,
    "unit": 1.0,
    "origin": 0.0,
    "prior": 1.0,
    "as_of_s": 0.0,
    "usual_weight": 1.0,
    "event_weight": 1.0,
    "event_scale": [1.0, 10.0],
    "event_damped": False,
    "event_typical": 1.4,
}
_job = {
    "id": JOB,
    "kind": "train",
    "state": "succeeded",
    "progress": 1.0,
    "metrics": METRICS,
    "algorithm": MODEL,
    "name": MODEL,
    "shadow": False,
    "params": {},
    "calibration": _calibration,
    "trials": [],
    "promoted": True,
    "version": VERSION,
    "backend": "host: there is no CUDA device",
    "reason": None,
    "error": None,
    "created_ms": 1795232220712,
}
_model = {
    "version": VERSION,
    "algorithm": MODEL,
    "live": True,
    "metrics": METRICS,
    "watermark": POSITION,
    "parameters": {"n_factors": 64, "n_epochs": 15},
    "calibration": _calibration,
    "rating_scale": [1.0, 5.0],
    "revision": 0,
    "error": None,
    "name": MODEL,
    "shadow": False,
}
_result = {"n": 1000, "value": 0.612, "baseline": 0.431}
_point = {"as_of": POSITION, "model_version": VERSION, "n": 100, "value": 0.61, "baseline": 0.42}
OF_MODELS: dict[str, Any] = {
    "EndedModel": {"name": "home-b", "cancelled": ["5b1f0c3a9d27"]},
    "Job": _job,
    "JobList": {"jobs": [_job]},
    "ModelInfo": _model,
    "ModelList": {"models": [_model]},
    "QualityPoint": _point,
    "QualityReport": {
        "model": MODEL,
        "model_version": VERSION,
        "algorithm": MODEL,
        "measure": "hit_rate",
        "baseline": "popularity",
        "since": POSITION,
        "window": _result,
        "decayed": _result,
        "all": _result | {"n": 4210},
        "untested": {"new_user": 12, "new_item": 31, "repeated": 402, "no_like": 97},
        "curve": [_point],
        "as_of": POSITION,
    },
    "QualityResult": _result,
    "StoredCalibration": _calibration,
    "Retrain": RETRAIN["usual"],
}
STATS: dict[str, Any] = {
    "users": 150,
    "items": 60,
    "ratings": 2412,
    "events": 2,
    "hidden": 1,
    "deleted": 0,
    "log": {"segments": 3, "rows": 2418, "bytes": 61440, "last_id": POSITION},
    "stream": {"entries": 31, "bytes": 180224, "last_id": POSITION},
    "models": [
        {"model": MODEL, "model_version": VERSION, "age_s": 61.3, "ratings_since": 12, "refits_waiting": 0},
    ],
    "as_of": POSITION,
    "lag_s": 0.0,
    "uptime_s": 81.62,
    "version": "0.1.0",
}
