"""The rating log: all that was ever accepted, in immutable segments."""
