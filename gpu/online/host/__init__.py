"""Online learning on the host: refits, drift, and the tables of ratings that they read."""
