-- All tokens; an id sorts by the time of its making.
SELECT packed FROM sayso.tokens ORDER BY id
