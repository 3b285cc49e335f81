"""Trainings and forgettings: jobs in Redis, the thread that runs them, and trainer processes."""
