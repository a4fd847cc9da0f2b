-- How the server is: its version, its sessions, whether nobody can listen to this one, and what it does for safety.
SELECT
    current_setting('server_version'),
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    current_setting('max_connections')::integer,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sayso'),
    coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)
        OR inet_client_addr() IS NULL OR inet_client_addr() = inet_server_addr(),
    current_setting('fsync') = 'on',
    (SELECT extract(epoch FROM max(replay_lag))::float8 FROM pg_stat_replication)
