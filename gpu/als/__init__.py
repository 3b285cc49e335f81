"""ALS ([000]; [001]), explicit and implicit, on one or several ranks, with ratings in memory or in batches."""
