-- Entries of the audit after a number, in order.
SELECT number, line, hash FROM sayso.audit WHERE number > $1 ORDER BY number LIMIT $2
