-- The base schema: version 7. Later versions are scripts of their own, `schema-8.sql` and so on.
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
    outcome  TEXT,                          -- how it ended, once done
    -- 0 while files that came with a message are still being fetched.
    ready INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX inbound_waiting ON inbound (channel, chat, thread, control, id) WHERE state = 'waiting';
CREATE INDEX inbound_turn ON inbound (turn) WHERE state = 'in turn';
CREATE INDEX inbound_unready ON inbound (channel, chat, id) WHERE state = 'waiting' AND ready = 0;
CREATE INDEX inbound_place ON inbound (channel, chat, thread, id);
CREATE INDEX inbound_media ON inbound (channel, chat, thread)
    WHERE json_array_length(message, '$.body.media') > 0;

-- What a channel received and could not read.
CREATE TABLE unreadable (
    key      TEXT PRIMARY KEY,
    received INTEGER NOT NULL,
    channel  TEXT NOT NULL,
    raw      TEXT NOT NULL
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
    begins   INTEGER NOT NULL DEFAULT 0,    -- the first turn that the model still sees
    -- chat | aside | command | subagent
    kind TEXT NOT NULL DEFAULT 'chat',
    -- JSON: Settings
    settings TEXT NOT NULL DEFAULT '{}',
    -- of the turns before `begins`
    summary TEXT,
    -- JSON: Mark, before which results are shortened
    shortened TEXT,
    -- JSON: Plan
    plan TEXT
) STRICT;
CREATE UNIQUE INDEX sessions_open ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'chat';
CREATE UNIQUE INDEX sessions_subagent ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'subagent';
CREATE UNIQUE INDEX sessions_job ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'job';
CREATE UNIQUE INDEX sessions_heartbeat ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind = 'heartbeat';

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
    ending   TEXT,                          -- JSON: Ending; null while it runs
    -- 1 while the turn has no task, because a call of it waits for somebody.
    parked INTEGER NOT NULL DEFAULT 0,
    -- 1: nobody asked for it or hears of it
    silent INTEGER NOT NULL DEFAULT 0,
    -- 1: a call of the turn, forgotten since, has read what strangers wrote.
    read_others INTEGER NOT NULL DEFAULT 0,
    -- 1: a finished turn that nobody worked on there, for what was said there by the program itself.
    noted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX turns_session ON turns (session);
CREATE INDEX turns_running ON turns (id) WHERE ending IS NULL;

CREATE TABLE steps (
    turn     INTEGER NOT NULL REFERENCES turns (id),
    seq      INTEGER NOT NULL,
    heard    TEXT,
    text     TEXT NOT NULL,
    thinking TEXT NOT NULL,                 -- JSON: [Thinking]
    -- JSON: [Image], what the model was shown together with what it heard.
    images TEXT,
    PRIMARY KEY (turn, seq)
) STRICT, WITHOUT ROWID;

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
CREATE INDEX ledger_at ON ledger (at);

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
    reason   TEXT,                          -- why it is late, or dead
    -- Which button of a question was pressed.
    pressed INTEGER,
    -- 1: the answer to a command, which waits behind nothing else.
    urgent INTEGER NOT NULL DEFAULT 0,
    -- 1: a word about a message that could not be delivered, about which there is none itself.
    notice INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX outbox_pending ON outbox (channel, chat, id) WHERE state = 'pending';

CREATE TABLE chunks (
    delivery    INTEGER NOT NULL REFERENCES outbox (id),
    seq         INTEGER NOT NULL,
    body        TEXT NOT NULL,
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
    thread  TEXT,
    -- Who the owner is where they last spoke to us; null: an older version wrote it down.
    sender TEXT
) STRICT;

-- The newest that strangers said in groups, so that it is not found anew when what was missed is read.
CREATE TABLE turned_away (
    id  INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE
) STRICT;

-- A channel's own marks, by name: Telegram's offset, say.
CREATE TABLE marks (
    channel TEXT NOT NULL,
    name    TEXT NOT NULL,
    mark    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (channel, name)
) STRICT, WITHOUT ROWID;

-- Tool calls. A call can wait for an approval or an answer, and can be denied.
CREATE TABLE calls (
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
    -- JSON: pictures that came with the answer which is the call's outcome.
    images TEXT,
    FOREIGN KEY (turn, step) REFERENCES steps (turn, seq)
) STRICT;
CREATE INDEX calls_turn ON calls (turn);
CREATE INDEX calls_ended ON calls (ended);

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
    row     INTEGER,                        -- its task in the journal; null: there is no turn
    turn    INTEGER,                        -- that works on it
    state   TEXT NOT NULL CHECK (state IN ('running', 'done', 'silent', 'failed', 'stopped', 'interrupted',
                                           'skipped')),
    ended   INTEGER,
    words   TEXT,                           -- the beginning of what came of it, or why nothing did
    -- When a run's command began, which is never begun a second time.
    began INTEGER,
    UNIQUE (job, due)
) STRICT;
CREATE INDEX runs_running ON runs (job) WHERE state = 'running';
CREATE INDEX runs_turn ON runs (turn) WHERE state = 'running';

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

-- What the bot goes by, as it was when it was last looked at; only while something may change it unseen.
CREATE TABLE rule_watch (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    rules TEXT NOT NULL,                    -- JSON: path → hash, or what else tells that it changed
    whole INTEGER NOT NULL,                 -- 0: there are more files than are looked at
    since INTEGER NOT NULL,
    actor TEXT NOT NULL                     -- JSON: what may change it, for whom, and who is told
) STRICT;
