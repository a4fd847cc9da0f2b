-- The version and the encoding, whether there are tables, and whether this user may change them. By the catalogue's rows:
-- names are looked up in a cache, which may not know yet what another session made a moment ago.
SELECT
    current_setting('server_version_num')::integer / 10000,
    current_setting('server_version'),
    current_setting('server_encoding'),
    forms.is_owner IS NOT NULL,
    forms.is_owner
FROM (SELECT 1) AS always LEFT JOIN (
    SELECT pg_has_role(relowner, 'USAGE') AS is_owner
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'sayso' AND relname = 'form'
) AS forms ON true
