"""Client API for approvers and operators, over a store or a hub: inbox, records, retention, archive."""
