"""Forms of the ALS half-iteration on the device: tables and plan of work, and what launches each kernel."""
