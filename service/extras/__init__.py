"""What only some services need. Each folder is one extra, and leaving it out leaves a whole service."""
