-- All remembered decisions, with their version.
SELECT head.remembered_version, ARRAY(SELECT packed FROM sayso.remembered ORDER BY id) FROM sayso.head
