-- Upserts and deletes of a transaction.
WITH dropped AS (
    DELETE FROM sayso.runs WHERE id = ANY ($3::text[])
)
INSERT INTO sayso.runs (id, packed) SELECT * FROM unnest($1::text[], $2::bytea[])
ON CONFLICT (id) DO UPDATE SET packed = excluded.packed
