"""The settings of a service, and how their values are read."""
