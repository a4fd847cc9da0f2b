-- Retention: delete closed requests; SKIP LOCKED leaves those that a transaction is writing, so neither waits.
DELETE FROM sayso.requests WHERE id IN (
    SELECT id FROM sayso.requests WHERE id = ANY ($1::text[]) AND status NOT IN ('open', 'approved')
    FOR UPDATE SKIP LOCKED
) RETURNING id
