-- All listed runs.
SELECT packed FROM sayso.runs
