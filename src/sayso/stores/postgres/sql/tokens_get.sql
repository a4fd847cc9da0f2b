-- The tokens with these ids.
SELECT id, packed FROM sayso.tokens WHERE id = ANY ($1::text[])
