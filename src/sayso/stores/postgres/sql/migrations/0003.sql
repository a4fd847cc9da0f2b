-- Users name a request by the end of its id. Four characters keep the index small, and leave few rows to compare for a
-- longer suffix.
CREATE INDEX requests_ending ON sayso.requests ("right"(id, 4));
