"""Made by `make clients` from the OpenAPI document of the service."""
