"""What approvers and operators do, over a store or over a hub: inbox, records, retention, archive."""
