-- Persons with their accounts; every model call in the ledger, with its person, cause and cost; budgets.

-- An id is never used again: folders are named after it.
CREATE TABLE persons (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL,
    since   INTEGER NOT NULL,
    -- JSON: Role, set by the owner; NULL: as the config and pairing say.
    role    TEXT,
    -- When the owner blocked or removed the person; NULL: they may speak.
    blocked INTEGER,
    removed INTEGER
) STRICT;

-- The accounts of persons on the channels.
CREATE TABLE accounts (
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    person  INTEGER NOT NULL REFERENCES persons (id),
    name    TEXT NOT NULL,
    since   INTEGER NOT NULL,
    -- The last message, to the quarter of an hour.
    seen    INTEGER NOT NULL,
    PRIMARY KEY (channel, sender)
) STRICT, WITHOUT ROWID;
CREATE INDEX accounts_person ON accounts (person);

-- Codes of /link, which join two accounts in one person.
CREATE TABLE links (
    code    TEXT PRIMARY KEY,
    -- The account that asked for the code, and the chat where it did.
    channel TEXT NOT NULL,
    sender  TEXT NOT NULL,
    name    TEXT NOT NULL,
    chat    TEXT NOT NULL,
    -- The same of the account where it was entered.
    other_channel TEXT,
    other_sender  TEXT,
    other_name    TEXT,
    other_chat    TEXT,
    made    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When the bot answers in a group, where its admins have set it.
CREATE TABLE activations (
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    groups  TEXT NOT NULL,
    PRIMARY KEY (channel, chat)
) STRICT, WITHOUT ROWID;

-- reserved: a call that is under way, with the most it may cost. estimated: its end was lost.
ALTER TABLE ledger ADD COLUMN state TEXT NOT NULL DEFAULT 'settled'
    CHECK (state IN ('reserved', 'settled', 'estimated'));
ALTER TABLE ledger ADD COLUMN session INTEGER;
ALTER TABLE ledger ADD COLUMN person INTEGER;
ALTER TABLE ledger ADD COLUMN cause TEXT NOT NULL DEFAULT 'chat';
-- The number of the job.
ALTER TABLE ledger ADD COLUMN job INTEGER;
ALTER TABLE ledger ADD COLUMN cache_written INTEGER NOT NULL DEFAULT 0;
-- In billionths of a dollar; NULL: the price is unknown.
ALTER TABLE ledger ADD COLUMN cost INTEGER;

UPDATE ledger SET session = (SELECT session FROM turns WHERE id = ledger.turn);
UPDATE ledger SET cause = ifnull(
    (SELECT iif(kind IN ('aside', 'subagent', 'job', 'heartbeat'), kind, 'chat')
     FROM sessions WHERE id = ledger.session), 'chat');
UPDATE ledger SET job = (SELECT CAST(chat AS INTEGER) FROM sessions WHERE id = ledger.session)
    WHERE cause = 'job';

DROP INDEX ledger_at;
CREATE INDEX ledger_at ON ledger (at, cause, job, input, output, cost, state);
CREATE INDEX ledger_person ON ledger (person, at, input, output, cost, state) WHERE person IS NOT NULL;
CREATE INDEX ledger_reserved ON ledger (id) WHERE state = 'reserved';

-- Budgets that the owner has set, in place of the config's: 0 is none, NULL leaves it to the config.
CREATE TABLE budgets (
    -- total, jobs, job, heartbeat, a role, `person 5` or `job 3`
    scope        TEXT PRIMARY KEY,
    day_tokens   INTEGER,
    day_cost     INTEGER,
    month_tokens INTEGER,
    month_cost   INTEGER
) STRICT, WITHOUT ROWID;

-- When the 30 days of a guest began, and of which day or month people were warned.
CREATE TABLE budget_periods (
    scope  TEXT NOT NULL,
    period TEXT NOT NULL,
    began  INTEGER NOT NULL,
    warned INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, period)
) STRICT, WITHOUT ROWID;
