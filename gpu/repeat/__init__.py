"""What a user had before may come back: the part of a user's own past in scores, and how much of it a training adds."""
