-- Change feed: the requests changed after a change number, in order.
SELECT change, packed FROM sayso.requests WHERE change > $1 ORDER BY change LIMIT $2
