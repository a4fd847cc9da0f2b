-- Who may ask and who may answer, over a hub.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    packed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
