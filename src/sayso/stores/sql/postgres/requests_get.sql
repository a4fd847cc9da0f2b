-- The requests with these ids.
SELECT packed FROM sayso.requests WHERE id = ANY ($1::text[])
