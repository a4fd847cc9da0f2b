-- The schema version: the number of the last migration that was applied.
CREATE TABLE sayso.form (version integer NOT NULL);

INSERT INTO sayso.form VALUES (0);

-- The head. A writer locks this one row until its commit, so that there is one audit chain and one order of changes. A
-- transaction that used a row version which has changed since is not written, but retried.
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

-- The last transaction of each open store: after a lost connection, it shows whether that one was committed.
CREATE TABLE sayso.writers (
    id text COLLATE "C" PRIMARY KEY,
    last_group bigint NOT NULL,
    wrote_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Requests: the question as a row. `call` is a hash of its session and key, which may be long.
CREATE TABLE sayso.requests (
    id text COLLATE "C" PRIMARY KEY,
    call bytea NOT NULL UNIQUE,
    project text NOT NULL,
    status text NOT NULL,
    asked_at double precision NOT NULL,
    packed bytea NOT NULL,
    change bigint NOT NULL
);

-- The inbox: a partial index of the open requests.
CREATE INDEX requests_open ON sayso.requests (id) WHERE status = 'open';

-- The change feed: each change of a request has the next number, which serves as a cursor.
CREATE INDEX requests_changed ON sayso.requests (change);

-- Remembered decisions, valid for later calls.
CREATE TABLE sayso.remembered (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);

-- Suspended runs with open requests, to be resumed later.
CREATE TABLE sayso.parked (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);

-- Tokens of agents and approvers at a hub.
CREATE TABLE sayso.tokens (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL
);

-- Idempotency keys: the stored answers for callers that retry because a reply was lost.
CREATE TABLE sayso.receipts (
    id text COLLATE "C" PRIMARY KEY,
    packed bytea NOT NULL,
    at timestamptz NOT NULL
);

CREATE INDEX receipts_at ON sayso.receipts (at);

-- The audit, one sealed line per step; its number is the only key, so the table can be partitioned by it.
CREATE TABLE sayso.audit (
    number bigint PRIMARY KEY,
    line bytea NOT NULL,
    hash text NOT NULL
);
