"""Names of files that the store and DATA have in common."""

HEAD_FILE = "head.json"  # of a store, and in DATA of a replica
OWNER_FILE = "publisher"  # in DATA of a worker: the id of the folder
