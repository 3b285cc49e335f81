"""Load test: measures a running service over HTTP, independently of its implementation.

It is an open loop: requests are sent at the times of a seeded schedule, whether or not earlier ones were answered, and
a latency counts from the scheduled time. So a service that falls behind cannot hide it by slowing its clients down.
"""
