-- The head: start and end of the audit chain, and the number of the last change of a request.
SELECT start_number, start_hash, chain_number, chain_hash, request_changes FROM sayso.head
