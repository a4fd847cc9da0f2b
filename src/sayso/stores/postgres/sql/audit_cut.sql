-- Retention: delete the oldest audit entries, if the start is still as expected, and the rows of writers idle for a day.
WITH moved AS (
    UPDATE sayso.head SET start_number = $3, start_hash = $4
    WHERE start_number = $1 AND start_hash = $2 AND chain_number >= $3
    RETURNING 1
), gone AS (
    DELETE FROM sayso.writers WHERE wrote_at < statement_timestamp() - interval '1 day'
)
DELETE FROM sayso.audit WHERE number > $1 AND number <= $3 AND EXISTS (SELECT FROM moved)
