-- The inbox in the order of ids, which sort by the time of their making: so it can be read in pieces.
DROP INDEX requests_open;

CREATE INDEX requests_open ON requests (id) WHERE status = 'open';
