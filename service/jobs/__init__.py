"""What trains and forgets: jobs in Redis, the thread that takes them, and trainers in processes of their own."""
