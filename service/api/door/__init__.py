"""What comes before the routes: connections, ids of requests, keys, sites, limits, and the audit log."""
