"""The batch on a cluster: Ray schedules and retries, and pictures come from any store."""
