"""Non-negative factorization by FAST-HALS ([002])."""
