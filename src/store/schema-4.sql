-- Jobs and their runs, and what the program says in conversations by itself.

-- What is to be done later, or again and again.
CREATE TABLE jobs (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    channel  TEXT NOT NULL,                 -- where what comes of it goes
    chat     TEXT NOT NULL,
    thread   TEXT,
    known_on TEXT NOT NULL,                 -- the channel on which its person is known
    place    TEXT NOT NULL,                 -- JSON: Place
    sender   TEXT NOT NULL,                 -- JSON: Sender, whose it is
    timing   TEXT NOT NULL,                 -- JSON: Timing
    payload  TEXT NOT NULL,                 -- JSON: Payload
    missed   TEXT NOT NULL,                 -- JSON: Missed
    state    TEXT NOT NULL CHECK (state IN ('active', 'paused', 'done', 'removed')),
    why      TEXT,                          -- it is paused
    next     INTEGER,                       -- when it is due; null: not any more
    last     INTEGER,                       -- the last due time that was claimed
    failures INTEGER NOT NULL DEFAULT 0,    -- in a row
    made     INTEGER NOT NULL,
    tainted  INTEGER NOT NULL               -- 1: who asked for it had read what strangers wrote
) STRICT;
CREATE INDEX jobs_due ON jobs (next) WHERE state = 'active' AND next IS NOT NULL;

-- Each due time that was claimed, and what came of it.
CREATE TABLE runs (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    job     INTEGER NOT NULL REFERENCES jobs (id),
    due     INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    late    INTEGER NOT NULL,               -- 1: it was missed when it was due
    began   INTEGER,                        -- a command of it, which is never begun a second time
    row     INTEGER,                        -- its task in the journal; null: there is no turn
    turn    INTEGER,                        -- that works on it
    state   TEXT NOT NULL CHECK (state IN ('running', 'done', 'silent', 'failed', 'stopped', 'interrupted',
                                           'skipped')),
    ended   INTEGER,
    words   TEXT,                           -- the beginning of what came of it, or why nothing did
    UNIQUE (job, due)
) STRICT;
CREATE INDEX runs_running ON runs (job) WHERE state = 'running';
CREATE INDEX runs_turn ON runs (turn) WHERE state = 'running';

CREATE UNIQUE INDEX sessions_job ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'job';

-- 1: a finished turn that nobody worked on there, for what was said there by the program itself.
ALTER TABLE turns ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
