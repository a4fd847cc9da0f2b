-- Write a transaction in one statement, if the versions of all rows that it used still hold; an empty NOTIFY wakes others.
SELECT outcome, began FROM sayso.write_group(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18
)
