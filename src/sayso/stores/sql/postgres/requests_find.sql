-- What was asked about a call.
SELECT packed FROM sayso.requests WHERE call = $1
