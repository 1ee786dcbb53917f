"""Background work on the database: outbox delivery, expiry, deadlines, reaper, sweeps."""
