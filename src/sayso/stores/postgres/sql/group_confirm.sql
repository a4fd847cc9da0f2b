-- That a group was written is told only when its commit, too, would have been: after a restart it is here, but perhaps on
-- no standby that has to have it. Whatever the server says meanwhile, this waits for the disk.
WITH careful AS (
    SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)
)
UPDATE sayso.writers SET wrote_at = statement_timestamp() FROM careful WHERE id = $1
