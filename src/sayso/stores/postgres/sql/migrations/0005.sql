-- A hash of session and call id, without the run: a history from a browser has lost the run. Older rows have none, for no
-- such history could be continued when they were opened.
ALTER TABLE sayso.requests ADD COLUMN call_id bytea;

CREATE INDEX requests_call_id ON sayso.requests (call_id);

-- As before, but `new_calls` are two hashes of 32 bytes, one after the other: `call` and `call_id`. So the function keeps
-- its parameters, the rights that were granted on it, and the stores of an older sayso that are open now.
CREATE OR REPLACE FUNCTION sayso.write_group(
    by_writer text, group_number bigint,
    new_ids text[], new_calls bytea[], new_projects text[], new_asked_at float8[],
    new_statuses text[], new_packed bytea[],
    old_ids text[], old_changes bigint[], old_statuses text[], old_packed bytea[],
    seen_ids text[], seen_changes bigint[],
    receipt_ids text[], receipt_packed bytea[], lines bytea[], remembers boolean
) RETURNS TABLE (outcome text, began bigint) LANGUAGE plpgsql AS $$
DECLARE
    was sayso.head;
    many bigint := cardinality(old_ids);
    sealed text;
    hashes text[] := '{}';
BEGIN
    -- A commit waits for the disk: server, database and role may say otherwise at any time.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    SELECT * INTO was FROM sayso.head FOR UPDATE;
    began := was.request_changes;
    outcome := 'stale';
    BEGIN
        INSERT INTO sayso.writers AS mine (id, last_group, wrote_at)
        VALUES (by_writer, group_number, statement_timestamp())
        ON CONFLICT (id) DO UPDATE SET last_group = excluded.last_group, wrote_at = excluded.wrote_at
        WHERE mine.last_group < excluded.last_group;
        IF NOT FOUND THEN
            outcome := 'written before';
            RETURN NEXT;
            RETURN;
        END IF;
        IF cardinality(seen_ids) > 0 THEN
            PERFORM FROM generate_series(1, cardinality(seen_ids)) AS i
            LEFT JOIN sayso.requests AS seen ON seen.id = seen_ids[i]
            WHERE seen.change IS DISTINCT FROM seen_changes[i];
            IF FOUND THEN
                RAISE unique_violation;
            END IF;
        END IF;
        IF cardinality(old_ids) > 0 THEN
            UPDATE sayso.requests AS old SET status = old_statuses[i], packed = old_packed[i], change = began + i
            FROM generate_series(1, cardinality(old_ids)) AS i
            WHERE old.id = old_ids[i] AND old.change = old_changes[i];
            GET DIAGNOSTICS many = ROW_COUNT;
            IF many < cardinality(old_ids) THEN
                RAISE unique_violation;
            END IF;
        END IF;
        IF cardinality(new_ids) > 0 THEN
            INSERT INTO sayso.requests (id, call, call_id, project, asked_at, status, packed, change)
            SELECT new_ids[i], substr(new_calls[i], 1, 32), substr(new_calls[i], 33), new_projects[i], new_asked_at[i],
                new_statuses[i], new_packed[i], began + many + i
            FROM generate_series(1, cardinality(new_ids)) AS i;
        END IF;
        IF cardinality(receipt_ids) > 0 THEN
            DELETE FROM sayso.receipts WHERE at < statement_timestamp() - interval '7 days';
            INSERT INTO sayso.receipts (id, packed, at)
            SELECT receipt_ids[i], receipt_packed[i], statement_timestamp()
            FROM generate_series(1, cardinality(receipt_ids)) AS i;
        END IF;
    EXCEPTION WHEN unique_violation THEN
        RETURN NEXT;
        RETURN;
    END;
    many := many + cardinality(new_ids);
    sealed := was.chain_hash;
    FOR i IN 1 .. cardinality(lines) LOOP
        sealed := encode(sha256(convert_to(sealed || ':' || was.chain_number + i || ':', 'UTF8') || lines[i]), 'hex');
        hashes[i] := sealed;
    END LOOP;
    INSERT INTO sayso.audit (number, line, hash)
    SELECT was.chain_number + i, lines[i], hashes[i] FROM generate_series(1, cardinality(lines)) AS i;
    UPDATE sayso.head SET
        chain_number = was.chain_number + cardinality(lines), chain_hash = sealed,
        request_changes = began + many, remembered_version = was.remembered_version + remembers::int;
    IF many > 0 OR remembers THEN
        PERFORM pg_notify('sayso', '');
    END IF;
    outcome := 'written';
    RETURN NEXT;
END $$;
