-- The newest requests before an id whose own id starts or ends so; the end is looked up by its last four characters.
SELECT packed FROM (
    SELECT id, packed FROM sayso.requests WHERE id >= $3 AND id < $3 || chr(1114111)
    UNION
    SELECT id, packed FROM sayso.requests WHERE "right"(id, 4) = "right"($3, 4) AND "right"(id, length($3)) = $3
    UNION
    SELECT id, packed FROM sayso.requests WHERE length($3) < 4 AND "right"(id, length($3)) = $3
) AS found
WHERE id < $1 ORDER BY id DESC LIMIT $2
