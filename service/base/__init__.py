"""What every room needs: errors, ids, times, threads and tuning of the process."""
