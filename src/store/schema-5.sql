-- The heartbeat.

-- Who the owner is where they last spoke to us; null: an older version wrote it down.
ALTER TABLE owner_place ADD COLUMN sender TEXT;

-- Whether it beats by itself; no row: it does.
CREATE TABLE heart (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    off   TEXT,                             -- why it does not; empty: somebody wished that
    after INTEGER NOT NULL                  -- the last beat before that; failures after it count
) STRICT;

-- Each beat, and what came of it.
CREATE TABLE beats (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    channel  TEXT NOT NULL,                 -- where what it has to say goes
    chat     TEXT NOT NULL,
    thread   TEXT,
    known_on TEXT NOT NULL,                 -- the channel on which its person is known
    place    TEXT NOT NULL,                 -- JSON: Place
    session  INTEGER NOT NULL,
    row      INTEGER,                       -- its task in the journal
    begun    INTEGER NOT NULL,
    asked    INTEGER NOT NULL,              -- 1: somebody asked for it
    state    TEXT NOT NULL CHECK (state IN ('running', 'told', 'silent', 'repeated', 'failed', 'stopped',
                                            'interrupted')),
    words    TEXT,                          -- what was told, or why it failed
    tainted  INTEGER NOT NULL DEFAULT 0     -- 1: who said so had read what strangers wrote
) STRICT;
CREATE UNIQUE INDEX beats_running ON beats (state) WHERE state = 'running';
CREATE INDEX beats_begun ON beats (begun);

CREATE UNIQUE INDEX sessions_heartbeat ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'heartbeat';
