"""What is popular now, as a part of every score: how it is counted, and how much of it a training adds."""
