-- An approved call that waits for those before it in its report. Its state is already 'made'.
ALTER TABLE deferred_calls ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
CREATE INDEX deferred_calls_queued ON deferred_calls (id) WHERE queued = 1;
