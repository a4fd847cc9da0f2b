-- Runs that ended with open questions and can go on later: what the adapter of their framework needs for that.
CREATE TABLE parked (
    name TEXT PRIMARY KEY,
    state BLOB NOT NULL
) STRICT, WITHOUT ROWID;
