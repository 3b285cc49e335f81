"""The stream in Redis: what is acknowledged, until the rating log has it."""
