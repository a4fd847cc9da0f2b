-- Those of these requests that nobody needs any more. What a group is just writing stays, so neither waits for the other.
DELETE FROM sayso.requests WHERE id IN (
    SELECT id FROM sayso.requests WHERE id = ANY ($1::text[]) AND status NOT IN ('open', 'approved')
    FOR UPDATE SKIP LOCKED
) RETURNING id
