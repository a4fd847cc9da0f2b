-- What a group changes, at once; the others are told by a hint that says nothing else.
WITH added AS (
    INSERT INTO sayso.requests (id, call, project, status, asked_at, packed, change)
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::float8[], $6::bytea[], $7::bigint[])
), changed AS (
    UPDATE sayso.requests AS old SET status = new.status, packed = new.packed, change = new.change
    FROM unnest($8::text[], $9::text[], $10::bytea[], $11::bigint[]) AS new (id, status, packed, change)
    WHERE old.id = new.id
), sealed AS (
    INSERT INTO sayso.audit (number, line, hash) SELECT * FROM unnest($12::bigint[], $13::bytea[], $14::text[])
), mine AS (
    INSERT INTO sayso.writers (id, last_group, wrote_at) VALUES ($15, $16, statement_timestamp())
    ON CONFLICT (id) DO UPDATE SET last_group = excluded.last_group, wrote_at = excluded.wrote_at
)
UPDATE sayso.head
SET chain_number = $17, chain_hash = $18, request_changes = $19, remembered_version = $20
RETURNING CASE WHEN $21 THEN pg_notify('sayso', '') END IS NULL
