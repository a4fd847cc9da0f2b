-- Version and encoding of the server, whether the tables exist, and whether this user may change them. From the catalogue
-- tables: a lookup by name uses a cache, which may miss tables that another session has just created.
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
