-- Tokens of agents and approvers at a hub.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    packed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
