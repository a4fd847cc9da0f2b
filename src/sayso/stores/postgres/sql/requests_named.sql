-- The newest requests before an id whose own id starts or ends with a text; an end of fewer than four characters is too
-- short for the index, and scans all ids.
WITH named AS MATERIALIZED (
    (SELECT id FROM sayso.requests WHERE id >= $3 AND id < $3 || chr(1114111) AND id < $1 ORDER BY id DESC LIMIT $2)
    UNION
    (
        SELECT id FROM sayso.requests
        WHERE "right"(id, 4) = "right"($3, 4) AND "right"(id, length($3)) = $3 AND id < $1 ORDER BY id DESC LIMIT $2
    )
    UNION
    (
        SELECT id FROM sayso.requests
        WHERE length($3) < 4 AND "right"(id, length($3)) = $3 AND id < $1 ORDER BY id DESC LIMIT $2
    )
)
SELECT packed FROM sayso.requests WHERE id IN (SELECT id FROM named) ORDER BY id DESC LIMIT $2
