-- The requests with these ids, each with its last change.
SELECT id, packed, change FROM sayso.requests WHERE id = ANY ($1::text[])
