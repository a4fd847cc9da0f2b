-- Where the chain of the audit begins: the entry before the first one that is kept.
ALTER TABLE facts ADD COLUMN start_number INTEGER NOT NULL DEFAULT 0;

ALTER TABLE facts ADD COLUMN start_hash TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000000000000000000000000000';
