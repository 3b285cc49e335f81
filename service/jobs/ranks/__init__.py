"""Trainings by several processes, on one machine or on a cluster."""
