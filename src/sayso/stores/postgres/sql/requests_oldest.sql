-- The requests after an id, oldest first.
SELECT packed FROM sayso.requests WHERE id > $1 ORDER BY id LIMIT $2
