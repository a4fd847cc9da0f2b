-- What a group changes, at once; the others are told by a hint that says nothing else.
WITH added AS (
    INSERT INTO sayso.requests (id, call, project, status, asked_at, packed, change)
    SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::float8[], $6::bytea[], $7::bigint[])
), changed AS (
    UPDATE sayso.requests AS old SET status = new.status, packed = new.packed, change = new.change
    FROM unnest($8::text[], $9::text[], $10::bytea[], $11::bigint[]) AS new (id, status, packed, change)
    WHERE old.id = new.id
), sealed AS (
    INSERT INTO sayso.audit (number, line, hash)
    SELECT $16 - cardinality($12) + place, line, hash
    FROM unnest($12::bytea[], $13::text[]) WITH ORDINALITY AS new (line, hash, place)
), mine AS (
    INSERT INTO sayso.writers (id, last_group, wrote_at) VALUES ($14, $15, statement_timestamp())
    ON CONFLICT (id) DO UPDATE SET last_group = excluded.last_group, wrote_at = excluded.wrote_at
)
UPDATE sayso.head
SET chain_number = $16, chain_hash = $17, request_changes = $18, remembered_version = $19
RETURNING CASE WHEN $20 THEN pg_notify('sayso', '') END IS NULL
