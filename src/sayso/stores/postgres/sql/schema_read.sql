-- The schema version.
SELECT version FROM sayso.form
