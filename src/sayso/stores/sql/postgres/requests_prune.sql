-- Closed requests that were asked before a time, some at once.
DELETE FROM sayso.requests WHERE id IN (
    SELECT id FROM sayso.requests WHERE asked_at < $1 AND status NOT IN ('open', 'approved') LIMIT $2
) RETURNING id
