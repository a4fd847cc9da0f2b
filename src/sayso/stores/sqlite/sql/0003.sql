-- The change feed: each change of a request has the next number, which serves as a cursor.
ALTER TABLE requests ADD COLUMN change INTEGER NOT NULL DEFAULT 0;

CREATE INDEX requests_changed ON requests (change);

-- The number of the last change.
ALTER TABLE facts ADD COLUMN request_changes INTEGER NOT NULL DEFAULT 0;
