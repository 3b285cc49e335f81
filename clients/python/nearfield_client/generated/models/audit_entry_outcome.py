from typing import Literal

AuditEntryOutcome = Literal["done", "failed", "refused"]

AUDIT_ENTRY_OUTCOME_VALUES: set[AuditEntryOutcome] = {
    "done",
    "failed",
    "refused",
}


def check_audit_entry_outcome(value: str) -> AuditEntryOutcome:
    if value in AUDIT_ENTRY_OUTCOME_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {AUDIT_ENTRY_OUTCOME_VALUES!r}"
    )
