"""A stranger at the door: measures a running service over HTTP and knows nothing of how it is made.

Open loop: requests are sent when a seeded schedule says so, whether or not earlier ones were answered, and a latency
counts from the intended moment. A service that falls behind cannot hide it by slowing its clients down.
"""
