# Starts the server. The password comes from standard input, so that it does not appear in the list of processes.
exec valkey-server - --appendonly yes --appendfsync "$APPENDFSYNC" --maxmemory-policy noeviction \
  --maxmemory "$MAXMEMORY" --save "" <<END
requirepass $REDISCLI_AUTH
END
