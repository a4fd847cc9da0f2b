-- The answers to attempts that their callers may have to make again, having never heard the answer.
CREATE TABLE receipts (
    attempt TEXT PRIMARY KEY,
    answer BLOB NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX receipts_at ON receipts (at);
