"""The night: jobs, workers, history, what changed, floors, the published report."""
