-- The id that the framework gave to a call, without its run: a history from a browser has lost the run. Older rows have
-- none, for no such history could be continued when they were opened.
ALTER TABLE requests ADD COLUMN framework_id TEXT;

CREATE INDEX requests_framework_id ON requests (session, framework_id);
