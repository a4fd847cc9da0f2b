-- The open requests after an id, oldest first.
SELECT packed FROM sayso.requests WHERE status = 'open' AND id > $1 ORDER BY id LIMIT $2
