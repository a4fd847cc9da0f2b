-- All remembered decisions, and the version that they are.
SELECT head.remembered_version, ARRAY(SELECT packed FROM sayso.remembered ORDER BY id) FROM sayso.head
