-- What people call a request by: the end of its id. Of four characters, so that it stays small, and a search for more has
-- few rows to look at.
CREATE INDEX requests_ending ON sayso.requests ("right"(id, 4));
