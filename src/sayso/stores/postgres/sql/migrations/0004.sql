-- The list of parked runs, without their state, which may be large.
CREATE TABLE sayso.runs (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);
