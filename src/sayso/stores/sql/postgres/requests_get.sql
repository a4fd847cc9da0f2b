-- The requests with these ids, each with its last change.
SELECT packed, change, id FROM sayso.requests WHERE id = ANY ($1::text[])
