-- Times are milliseconds since 1970, UTC. JSON columns hold our own types.

-- The journal: each message that was accepted, and what became of it. It is the queue.
CREATE TABLE inbound (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    key      TEXT NOT NULL UNIQUE,
    received INTEGER NOT NULL,
    channel  TEXT NOT NULL,
    chat     TEXT NOT NULL,
    thread   TEXT,
    sender   TEXT NOT NULL,
    control  INTEGER NOT NULL,              -- 1: a command that never waits behind turns
    message  TEXT NOT NULL,                 -- JSON: Inbound
    state    TEXT NOT NULL CHECK (state IN ('waiting', 'in turn', 'done')),
    turn     INTEGER REFERENCES turns (id),
    outcome  TEXT                           -- how it ended, once done
) STRICT;
CREATE INDEX inbound_waiting ON inbound (channel, chat, thread, control, id) WHERE state = 'waiting';
CREATE INDEX inbound_turn ON inbound (turn) WHERE state = 'in turn';

-- What a channel received and could not read.
CREATE TABLE unreadable (
    key      TEXT PRIMARY KEY,
    received INTEGER NOT NULL,
    channel  TEXT NOT NULL,
    raw      TEXT NOT NULL
) STRICT;

-- A channel's own mark: Telegram's offset, say.
CREATE TABLE marks (
    channel TEXT PRIMARY KEY,
    mark    TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    channel  TEXT NOT NULL,
    chat     TEXT NOT NULL,
    thread   TEXT,
    place    TEXT NOT NULL,                 -- JSON: Place
    opened   INTEGER NOT NULL,
    closed   INTEGER,
    frozen   TEXT,                          -- JSON: Frozen
    begins   INTEGER NOT NULL DEFAULT 0     -- the first turn that the model still sees
) STRICT;
CREATE UNIQUE INDEX sessions_open ON sessions (channel, chat, ifnull(thread, '')) WHERE closed IS NULL;

CREATE TABLE turns (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    session  INTEGER NOT NULL REFERENCES sessions (id),
    sender   TEXT NOT NULL,                 -- JSON: Sender
    reply_to TEXT,
    draft    TEXT,                          -- the platform's id of the draft that the answer replaces
    attempts INTEGER NOT NULL,
    provider TEXT NOT NULL,
    started  INTEGER NOT NULL,
    ended    INTEGER,
    ending   TEXT                           -- JSON: Ending; null while it runs
) STRICT;
CREATE INDEX turns_session ON turns (session);
CREATE INDEX turns_running ON turns (id) WHERE ending IS NULL;

CREATE TABLE steps (
    turn     INTEGER NOT NULL REFERENCES turns (id),
    seq      INTEGER NOT NULL,
    heard    TEXT,
    text     TEXT NOT NULL,
    thinking TEXT NOT NULL,                 -- JSON: [Thinking]
    PRIMARY KEY (turn, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE calls (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    turn      INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    wire_id   TEXT NOT NULL,
    tool      TEXT NOT NULL,
    arguments TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('planned', 'running', 'done', 'failed', 'interrupted', 'skipped')),
    intent    TEXT,                         -- JSON: Intent, while it runs
    output    TEXT,
    started   INTEGER,
    ended     INTEGER,
    FOREIGN KEY (turn, step) REFERENCES steps (turn, seq)
) STRICT;
CREATE INDEX calls_turn ON calls (turn);

-- Tokens of each completion.
CREATE TABLE ledger (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    turn     INTEGER NOT NULL REFERENCES turns (id),
    at       INTEGER NOT NULL,
    provider TEXT NOT NULL,
    input    INTEGER NOT NULL,
    cached   INTEGER NOT NULL,
    output   INTEGER NOT NULL
) STRICT;
CREATE INDEX ledger_turn ON ledger (turn);

-- The outbox: each message on its way out.
CREATE TABLE outbox (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    channel  TEXT NOT NULL,
    chat     TEXT NOT NULL,
    thread   TEXT,
    reply_to TEXT,
    replaces TEXT,
    body     TEXT NOT NULL,                 -- JSON: Body
    created  INTEGER NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('pending', 'sent', 'dead')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next     INTEGER NOT NULL,              -- not before
    reason   TEXT                           -- why it is late, or dead
) STRICT;
CREATE INDEX outbox_pending ON outbox (channel, chat, id) WHERE state = 'pending';

CREATE TABLE chunks (
    delivery    INTEGER NOT NULL REFERENCES outbox (id),
    seq         INTEGER NOT NULL,
    text        TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'sent', 'dead')),
    doubts      INTEGER NOT NULL DEFAULT 0, -- sends of which nobody knows whether they arrived
    since       INTEGER,                    -- when the last sending began
    platform_id TEXT,
    PRIMARY KEY (delivery, seq)
) STRICT, WITHOUT ROWID;

-- People who were let in by pairing.
CREATE TABLE people (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    name    TEXT NOT NULL,
    role    TEXT NOT NULL,                  -- JSON: Role
    since   INTEGER NOT NULL,
    PRIMARY KEY (channel, sender)
) STRICT, WITHOUT ROWID;

-- People who are not: those who wait for an approval, and whom we told so when.
CREATE TABLE strangers (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    name    TEXT NOT NULL,
    chat    TEXT NOT NULL,
    code    TEXT,
    asked   INTEGER NOT NULL,
    told    INTEGER NOT NULL,
    PRIMARY KEY (channel, sender)
) STRICT, WITHOUT ROWID;

-- Where the owner last spoke to us in private.
CREATE TABLE owner_place (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    thread  TEXT
) STRICT;
