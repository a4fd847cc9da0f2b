-- Requests: the question as a row. `call_id` is the key of a call in its session: its run, if any, and its id.
CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    call_id TEXT NOT NULL,
    status TEXT NOT NULL,
    asked_at REAL NOT NULL,
    packed BLOB NOT NULL,
    UNIQUE (session, call_id)
) STRICT, WITHOUT ROWID;

-- The inbox: open requests, oldest first.
CREATE INDEX requests_open ON requests (asked_at) WHERE status = 'open';

-- Remembered decisions, valid for later calls.
CREATE TABLE remembered (
    id TEXT PRIMARY KEY,
    packed BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit, one sealed line per step.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    line BLOB NOT NULL,
    hash TEXT NOT NULL
) STRICT;

-- The end of the audit chain, and the version of the remembered decisions.
CREATE TABLE facts (
    chain_number INTEGER NOT NULL,
    chain_hash TEXT NOT NULL,
    remembered_version INTEGER NOT NULL
) STRICT;

INSERT INTO facts VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000', 0);
