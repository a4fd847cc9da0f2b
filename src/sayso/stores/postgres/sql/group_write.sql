-- What a group changes, at once; the others are told by a hint that says nothing else.
SELECT outcome, began FROM sayso.write_group(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
)
