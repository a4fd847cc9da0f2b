-- Where everything stands.
SELECT start_number, start_hash, chain_number, chain_hash, request_changes FROM sayso.head
