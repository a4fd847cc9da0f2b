-- The requests of these calls, each with its last change.
SELECT call, packed, change FROM sayso.requests WHERE call = ANY ($1::bytea[])
