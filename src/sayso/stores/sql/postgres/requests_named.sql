-- The newest requests before an id whose own id starts or ends so. The ids alone are looked through, in their index:
-- people do that, now and then, and an index of ends would cost every request.
WITH named AS MATERIALIZED (
    SELECT id FROM sayso.requests WHERE id < $1 AND (starts_with(id, $3) OR "right"(id, length($3)) = $3)
    ORDER BY id DESC LIMIT $2
)
SELECT packed FROM sayso.requests WHERE id IN (SELECT id FROM named) ORDER BY id DESC
