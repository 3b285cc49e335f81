from typing import Literal

AuditEntryVia = Literal["api", "cli", "console"]

AUDIT_ENTRY_VIA_VALUES: set[AuditEntryVia] = {
    "api",
    "cli",
    "console",
}


def check_audit_entry_via(value: str) -> AuditEntryVia:
    if value in AUDIT_ENTRY_VIA_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {AUDIT_ENTRY_VIA_VALUES!r}"
    )
