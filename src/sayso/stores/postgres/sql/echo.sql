-- A hint to oneself.
SELECT pg_notify('sayso', $1)
