-- The list of parked runs, without their state, which may be large.
CREATE TABLE runs (
    name TEXT PRIMARY KEY,
    packed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
