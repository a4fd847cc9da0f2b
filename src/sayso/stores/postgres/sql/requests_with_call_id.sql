-- The requests of a session for calls with an id, given as the hash of both, newest first.
SELECT packed FROM sayso.requests WHERE call_id = $1 ORDER BY id DESC LIMIT $2
