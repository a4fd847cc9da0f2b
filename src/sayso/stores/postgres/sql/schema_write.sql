-- The form that the tables have now.
UPDATE sayso.form SET version = $1
