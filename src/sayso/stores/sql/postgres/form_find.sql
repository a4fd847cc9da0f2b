-- The encoding, and whether there are tables. By the catalogue's rows: names are looked up in a cache, which may not know
-- yet what another session made a moment ago.
SELECT current_setting('server_encoding'), EXISTS (
    SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'sayso' AND relname = 'form'
)
