-- One token.
SELECT packed FROM sayso.tokens WHERE id = $1
