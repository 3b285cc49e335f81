"""Several ranks train one model: how they divide rows and exchange arrays."""
