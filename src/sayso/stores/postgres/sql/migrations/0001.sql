-- The form of what is here, as the number of the last of these files.
CREATE TABLE sayso.form (version integer NOT NULL);

INSERT INTO sayso.form VALUES (0);

-- Where everything stands. Whoever writes a group holds this one row until the commit, so that there is one chain and
-- one order of changes. What was decided earlier, by rows that have changed since, is not written but decided anew.
CREATE TABLE sayso.head (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    start_number bigint NOT NULL DEFAULT 0, -- the entry before the first one that is kept
    start_hash text NOT NULL DEFAULT repeat('0', 64),
    chain_number bigint NOT NULL DEFAULT 0,
    chain_hash text NOT NULL DEFAULT repeat('0', 64),
    request_changes bigint NOT NULL DEFAULT 0,
    remembered_version bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

INSERT INTO sayso.head DEFAULT VALUES;

-- The last group that each open store wrote: so it knows after a lost connection whether that group was kept.
CREATE TABLE sayso.writers (
    id text COLLATE "C" PRIMARY KEY,
    last_group bigint NOT NULL,
    wrote_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Requests: the question as a row. `call` stands for its session and its key there, however long they are.
CREATE TABLE sayso.requests (
    id text COLLATE "C" PRIMARY KEY,
    call bytea NOT NULL UNIQUE,
    project text NOT NULL,
    status text NOT NULL,
    asked_at double precision NOT NULL,
    packed bytea NOT NULL,
    change bigint NOT NULL
);

-- The inbox: as large as what is open, however much is closed.
CREATE INDEX requests_open ON sayso.requests (id) WHERE status = 'open';

-- The feed: each change of a request has the next number, so that whoever knows one finds all that came after it.
CREATE INDEX requests_changed ON sayso.requests (change);

-- Decisions that stand for later calls.
CREATE TABLE sayso.remembered (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);

-- Runs that ended with open questions and can go on later.
CREATE TABLE sayso.parked (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);

-- Who may ask and who may answer, over a hub.
CREATE TABLE sayso.tokens (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);

-- The answers to attempts that their callers may have to make again, having never heard the answer.
CREATE TABLE sayso.receipts (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL,
    at timestamptz NOT NULL
);

CREATE INDEX receipts_at ON sayso.receipts (at);

-- The audit, one sealed line per step. Nothing but its number names a line, so it can be cut into pieces by it.
CREATE TABLE sayso.audit (
    number bigint PRIMARY KEY,
    line bytea NOT NULL,
    hash text NOT NULL
);
