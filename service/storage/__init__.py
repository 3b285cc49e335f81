"""What is durable: files that several processes share."""
