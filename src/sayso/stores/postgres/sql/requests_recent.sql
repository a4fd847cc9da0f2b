-- The newest requests before an id, newest first.
SELECT packed FROM sayso.requests WHERE id < $1 ORDER BY id DESC LIMIT $2
