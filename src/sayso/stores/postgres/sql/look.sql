-- What happened after a point: how far the changes go, which of the requests are closed, and the time.
SELECT head.request_changes, head.remembered_version, extract(epoch FROM clock_timestamp())::float8, ended.ids, ended.last
FROM sayso.head, (
    SELECT coalesce(array_agg(id), '{}') AS ids, max(change) AS last
    FROM (SELECT id, change FROM sayso.requests WHERE change > $1 AND status <> 'open' ORDER BY change LIMIT $2) AS found
) AS ended
