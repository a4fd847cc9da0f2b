-- The feed: each change of a request has the next number, so that whoever knows one finds all that came after it.
ALTER TABLE requests ADD COLUMN change INTEGER NOT NULL DEFAULT 0;

CREATE INDEX requests_changed ON requests (change);

-- How many changes there were.
ALTER TABLE facts ADD COLUMN request_changes INTEGER NOT NULL DEFAULT 0;
