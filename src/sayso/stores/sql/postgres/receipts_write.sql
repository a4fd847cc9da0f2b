-- The answers that a group gives to attempts; nobody tries again after a week.
WITH forgotten AS (
    DELETE FROM sayso.receipts WHERE at < statement_timestamp() - interval '7 days'
)
INSERT INTO sayso.receipts (id, packed, at)
SELECT id, packed, statement_timestamp() FROM unnest($1::text[], $2::bytea[]) AS new (id, packed)
