-- Calls that wait for somebody, settings and summaries of conversations, subagents, undo, proposals.

-- A call can wait for an approval or an answer, and can be denied.
CREATE TABLE new_calls (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    turn      INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    wire_id   TEXT NOT NULL,
    tool      TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('planned', 'waiting', 'running', 'done', 'failed', 'denied',
                                             'interrupted', 'skipped')),
    intent    TEXT,                         -- JSON: Intent, while it runs
    output    TEXT,
    started   INTEGER,
    ended     INTEGER,
    undo      TEXT,                         -- JSON: what it takes to undo it
    undone    INTEGER,                      -- when that was done
    FOREIGN KEY (turn, step) REFERENCES steps (turn, seq)
) STRICT;
INSERT INTO new_calls (id, turn, step, wire_id, tool, arguments, state, intent, output, started, ended)
    SELECT id, turn, step, wire_id, tool, arguments, state, intent, output, started, ended FROM calls;
DROP TABLE calls;
ALTER TABLE new_calls RENAME TO calls;
CREATE INDEX calls_turn ON calls (turn);
CREATE INDEX calls_ended ON calls (ended);

-- 1 while the turn has no task, because a call of it waits for somebody.
ALTER TABLE turns ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;

-- What somebody was asked on behalf of a call.
CREATE TABLE asks (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    turn     INTEGER NOT NULL REFERENCES turns (id),
    call     INTEGER NOT NULL,
    kind     TEXT NOT NULL CHECK (kind IN ('approval', 'question')),
    delivery INTEGER NOT NULL,              -- the asking message
    channel  TEXT NOT NULL,                 -- where it was asked
    chat     TEXT NOT NULL,
    thread   TEXT,
    who      TEXT,                          -- whose answer counts; null: anybody entitled
    after    INTEGER NOT NULL,              -- what was accepted until then is no answer
    expires  INTEGER NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('open', 'settled', 'expired', 'cancelled'))
) STRICT;
CREATE INDEX asks_open ON asks (expires) WHERE state = 'open';
CREATE INDEX asks_call ON asks (call);

-- Tools that somebody entitled has allowed for good, for one person.
CREATE TABLE grants (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    tool    TEXT NOT NULL,
    since   INTEGER NOT NULL,
    PRIMARY KEY (channel, sender, tool)
) STRICT, WITHOUT ROWID;

ALTER TABLE sessions ADD COLUMN kind TEXT NOT NULL DEFAULT 'chat';      -- chat | aside | command | subagent
ALTER TABLE sessions ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';    -- JSON: Settings
ALTER TABLE sessions ADD COLUMN summary TEXT;                           -- of the turns before `begins`
ALTER TABLE sessions ADD COLUMN shortened TEXT;                         -- JSON: Mark, before which results are shortened
ALTER TABLE turns ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;         -- 1: nobody asked for it or hears of it
ALTER TABLE sessions ADD COLUMN plan TEXT;                              -- JSON: Plan
DROP INDEX sessions_open;
CREATE UNIQUE INDEX sessions_open ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'chat';

CREATE TABLE subagents (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions (id),  -- its own
    parent  INTEGER NOT NULL REFERENCES sessions (id),  -- the one that asked
    call    INTEGER,                                    -- the call that began it
    task    TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'stopped', 'interrupted')),
    result  TEXT,
    begun   INTEGER NOT NULL,
    ended   INTEGER
) STRICT;
CREATE UNIQUE INDEX sessions_subagent ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'subagent';
CREATE INDEX subagents_running ON subagents (parent) WHERE state = 'running';

-- What the model suggests, and what became of it.
CREATE TABLE proposals (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions (id),
    title   TEXT NOT NULL,
    body    TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('open', 'accepted', 'declined', 'withdrawn')),
    made    INTEGER NOT NULL,
    changed INTEGER NOT NULL
) STRICT;
