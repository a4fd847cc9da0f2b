-- All tokens; ids sort by creation time.
SELECT packed FROM sayso.tokens ORDER BY id
