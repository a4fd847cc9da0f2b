-- How many states are parked under names with a prefix, and their bytes.
SELECT count(*), coalesce(sum(octet_length(packed)), 0)::bigint FROM sayso.parked WHERE starts_with(id, $1)
