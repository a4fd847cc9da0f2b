-- The form of the tables, if there are any.
SELECT version FROM sayso.form
