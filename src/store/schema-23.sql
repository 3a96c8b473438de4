-- Trust: the sources of summaries, and calls that nobody could be asked about.

-- JSON: [Source]; NULL: a former version wrote the summary.
ALTER TABLE sessions ADD COLUMN summary_sources TEXT;
-- Where the summary has the trusted parts alone: a summary of all that was said, with its sources.
ALTER TABLE sessions ADD COLUMN untrusted_summary TEXT;
ALTER TABLE sessions ADD COLUMN untrusted_sources TEXT;
CREATE INDEX sessions_chat ON sessions (channel, chat);

-- Calls that were not made because nobody could be asked.
CREATE TABLE deferred_calls (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The first one of the message that shows it.
    batch     INTEGER,
    -- The call that was refused.
    call      INTEGER NOT NULL,
    tool      TEXT NOT NULL,
    arguments TEXT NOT NULL,
    sender    TEXT NOT NULL,               -- JSON: Sender, for whom it is made
    known_on  TEXT NOT NULL,               -- the channel on which they are known
    place     TEXT NOT NULL,               -- JSON: ChatKind
    channel   TEXT NOT NULL,               -- where its result goes
    chat      TEXT NOT NULL,
    thread    TEXT,
    tainted   INTEGER NOT NULL,            -- 1: its model had read untrusted content
    expires   INTEGER NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('open', 'made', 'denied'))
) STRICT;
CREATE INDEX deferred_calls_expires ON deferred_calls (expires);
