"""HTTP plumbing of the hub: headers, strict JSON, problem responses, schemas, time-outs, logs."""
