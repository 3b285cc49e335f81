"""What a service tells of itself: logs, metrics and traces."""
