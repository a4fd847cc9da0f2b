-- Notify this store itself, to measure the delay.
SELECT pg_notify('sayso', $1)
