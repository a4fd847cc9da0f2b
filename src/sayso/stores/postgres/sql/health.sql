-- Health check: version, sessions, whether this session is encrypted or local, durability, replica lag, and which of the
-- rights of deploy/rights.sql this user lacks.
SELECT
    current_setting('server_version'),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('max_connections')::integer,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sayso'),
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)
        OR inet_client_addr() IS NULL OR inet_client_addr() = inet_server_addr(),
    current_setting('fsync') = 'on',
    (SELECT extract(epoch FROM max(replay_lag))::float8 FROM pg_stat_replication),
    ARRAY(
        SELECT needed || ' on sayso.' || named
        FROM (VALUES
            ('audit', '{INSERT}'::text[]), ('head', '{UPDATE}'), ('writers', '{INSERT,UPDATE}'),
            ('requests', '{INSERT,UPDATE,DELETE}'), ('remembered', '{INSERT,UPDATE,DELETE}'),
            ('parked', '{INSERT,UPDATE,DELETE}'), ('runs', '{INSERT,UPDATE,DELETE}'), ('tokens', '{INSERT,UPDATE,DELETE}'),
            ('receipts', '{INSERT,UPDATE,DELETE}')
        ) AS tables (named, rights), unnest(rights) AS needed
        WHERE NOT has_table_privilege('sayso.' || named, needed)
        UNION ALL
        SELECT 'EXECUTE on sayso.' || proname FROM pg_proc
        WHERE pronamespace = 'sayso'::regnamespace AND NOT has_function_privilege(oid, 'EXECUTE')
    )
