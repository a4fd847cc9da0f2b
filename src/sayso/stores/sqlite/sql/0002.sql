-- Suspended runs with open requests, to be resumed later: the state that the adapter of the framework needs.
CREATE TABLE parked (
    name TEXT PRIMARY KEY,
    state BLOB NOT NULL
) STRICT, WITHOUT ROWID;
