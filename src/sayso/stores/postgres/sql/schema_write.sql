-- Set the schema version.
UPDATE sayso.form SET version = $1
