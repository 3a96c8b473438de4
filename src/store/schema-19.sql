-- Webhooks: other programs that wake the bot.

-- Calls that were accepted. A key that comes again has no second effect.
CREATE TABLE webhook_calls (
    hook TEXT NOT NULL,
    key  TEXT NOT NULL,
    at   INTEGER NOT NULL,
    -- The job that was made for it; NULL: a job that was there was run.
    job  INTEGER,
    PRIMARY KEY (hook, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_calls_at ON webhook_calls (at);
