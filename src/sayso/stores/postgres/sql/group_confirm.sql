-- Confirm a transaction whose reply was lost: after a restart of the server it is committed here, but perhaps on no
-- synchronous standby yet. This write commits after it, and so waits for the same standbys; and always for the disk.
WITH careful AS (
    SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)
)
UPDATE sayso.writers SET wrote_at = statement_timestamp() FROM careful WHERE id = $1
