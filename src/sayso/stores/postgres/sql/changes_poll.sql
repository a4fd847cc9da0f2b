-- Poll: the last change, the version of the remembered decisions, the time, and the requests closed after a change.
SELECT head.request_changes, head.remembered_version, extract(epoch FROM clock_timestamp())::float8, ended.ids, ended.last
FROM sayso.head, (
    SELECT coalesce(array_agg(id), '{}') AS ids, max(change) AS last
    FROM (SELECT id, change FROM sayso.requests WHERE change > $1 AND status <> 'open' ORDER BY change LIMIT $2) AS found
) AS ended
