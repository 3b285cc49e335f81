"""The bridge from Kafka to a service."""
