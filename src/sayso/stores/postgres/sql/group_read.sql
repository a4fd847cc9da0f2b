-- Read the head, the last attempt of this writer, and the rows that the jobs of a transaction need.
SELECT 'head' AS what, '' AS id, NULL::bytea AS packed, request_changes AS number FROM sayso.head
UNION ALL
SELECT 'writer', id, NULL, last_group FROM sayso.writers WHERE id = $1
UNION ALL
SELECT 'request', id, packed, change FROM sayso.requests WHERE id = ANY ($2::text[]) OR call = ANY ($3::bytea[])
UNION ALL
SELECT 'call', id, call, 0 FROM sayso.requests WHERE call = ANY ($3::bytea[])
UNION ALL
SELECT 'remembered', id, packed, 0 FROM sayso.remembered WHERE id = ANY ($4::text[])
UNION ALL
SELECT 'parked', id, packed, 0 FROM sayso.parked WHERE id = ANY ($5::text[])
UNION ALL
SELECT 'tokens', id, packed, 0 FROM sayso.tokens WHERE id = ANY ($6::text[])
UNION ALL
SELECT 'receipts', id, packed, 0 FROM sayso.receipts WHERE id = ANY ($7::text[])
