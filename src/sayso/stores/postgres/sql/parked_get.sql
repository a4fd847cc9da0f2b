-- The state parked under a name.
SELECT packed FROM sayso.parked WHERE id = $1
