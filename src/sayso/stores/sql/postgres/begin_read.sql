-- What has to be known first: whether a commit waits for the disk, and how far the changes go.
SELECT current_setting('synchronous_commit'), request_changes FROM sayso.head
