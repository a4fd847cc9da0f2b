-- A hint to oneself.
SELECT pg_notify($1, $2)
