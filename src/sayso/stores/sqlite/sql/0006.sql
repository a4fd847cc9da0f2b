-- Idempotency keys: the stored answers for callers that retry because a reply was lost.
CREATE TABLE receipts (
    attempt TEXT PRIMARY KEY,
    answer BLOB NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX receipts_at ON receipts (at);
