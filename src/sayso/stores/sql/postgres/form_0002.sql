-- Write a group of changes in one statement, if all that it was decided by still holds. It holds the head from its first
-- line to its commit, which needs nobody to come back for; so the chain is sealed here, where its end is known.
CREATE FUNCTION sayso.write_group(
    by_writer text, group_number bigint,
    new_ids text[], new_calls bytea[], new_projects text[], new_asked_at float8[],
    new_statuses text[], new_packed bytea[], new_places bigint[],
    old_ids text[], old_changes bigint[], old_statuses text[], old_packed bytea[], old_places bigint[],
    seen_ids text[], seen_changes bigint[],
    receipt_ids text[], receipts bytea[], lines bytea[],
    many bigint, remembers boolean
) RETURNS TABLE (outcome text, began bigint) LANGUAGE plpgsql AS $$
DECLARE
    was sayso.head;
    done bigint;
    sealed text;
    hashes text[] := '{}';
BEGIN
    SELECT * INTO was FROM sayso.head FOR UPDATE;
    sealed := was.chain_hash;
    began := was.request_changes;
    SELECT last_group INTO done FROM sayso.writers WHERE id = by_writer;
    IF done >= group_number THEN
        outcome := 'written before';
        RETURN NEXT;
        RETURN;
    END IF;
    FOR place IN 1 .. cardinality(lines) LOOP
        sealed := encode(sha256(convert_to(sealed || ':' || was.chain_number + place || ':', 'UTF8') || lines[place]), 'hex');
        hashes[place] := sealed;
    END LOOP;
    outcome := 'stale';
    BEGIN
        IF cardinality(seen_ids) > 0 THEN
            PERFORM FROM unnest(seen_ids, seen_changes) AS seen (id, change) LEFT JOIN sayso.requests AS now USING (id)
            WHERE now.change IS DISTINCT FROM seen.change;
            IF FOUND THEN
                RAISE unique_violation;
            END IF;
        END IF;
        IF cardinality(old_ids) > 0 THEN
            UPDATE sayso.requests AS old SET status = new.status, packed = new.packed, change = began + new.place
            FROM unnest(old_ids, old_changes, old_statuses, old_packed, old_places)
                AS new (id, change, status, packed, place)
            WHERE old.id = new.id AND old.change = new.change;
            GET DIAGNOSTICS done = ROW_COUNT;
            IF done < cardinality(old_ids) THEN
                RAISE unique_violation;
            END IF;
        END IF;
        IF cardinality(new_ids) > 0 THEN
            INSERT INTO sayso.requests (id, call, project, asked_at, status, packed, change)
            SELECT new.id, new.call, new.project, new.asked_at, new.status, new.packed, began + new.place
            FROM unnest(new_ids, new_calls, new_projects, new_asked_at, new_statuses, new_packed, new_places)
                AS new (id, call, project, asked_at, status, packed, place);
        END IF;
        IF cardinality(receipt_ids) > 0 THEN
            DELETE FROM sayso.receipts WHERE at < statement_timestamp() - interval '7 days';
            INSERT INTO sayso.receipts (id, packed, at)
            SELECT new.id, new.packed, statement_timestamp() FROM unnest(receipt_ids, receipts) AS new (id, packed);
        END IF;
    EXCEPTION WHEN unique_violation THEN
        RETURN NEXT;
        RETURN;
    END;
    INSERT INTO sayso.audit (number, line, hash)
    SELECT was.chain_number + new.place, new.line, new.hash
    FROM unnest(lines, hashes) WITH ORDINALITY AS new (line, hash, place);
    INSERT INTO sayso.writers (id, last_group, wrote_at) VALUES (by_writer, group_number, statement_timestamp())
    ON CONFLICT (id) DO UPDATE SET last_group = excluded.last_group, wrote_at = excluded.wrote_at;
    UPDATE sayso.head SET
        chain_number = was.chain_number + cardinality(lines), chain_hash = sealed,
        request_changes = began + many, remembered_version = was.remembered_version + remembers::int;
    IF many > 0 OR remembers THEN
        PERFORM pg_notify('sayso', '');
    END IF;
    outcome := 'written';
    RETURN NEXT;
END $$;
