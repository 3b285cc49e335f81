"""Live models: they learn from every entry, and are tested before they do."""
