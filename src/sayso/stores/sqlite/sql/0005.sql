-- The inbox in the order of ids, which sort by creation time: so it can be read in pages.
DROP INDEX requests_open;

CREATE INDEX requests_open ON requests (id) WHERE status = 'open';
