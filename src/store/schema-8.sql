-- Indices on what is looked up and pruned; deliveries that wait; rows that cannot be read.

-- How often what a row says was changed, so that a change since it was read is noticed.
ALTER TABLE inbound ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;

-- Why the row cannot be read; null: a channel could not read it. Rows of other tables are kept here, too.
ALTER TABLE unreadable ADD COLUMN why TEXT;

-- What a turn has cost outlives the turn.
CREATE TABLE new_ledger (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    turn     INTEGER REFERENCES turns (id) ON DELETE SET NULL,
    at       INTEGER NOT NULL,
    provider TEXT NOT NULL,
    input    INTEGER NOT NULL,
    cached   INTEGER NOT NULL,
    output   INTEGER NOT NULL
) STRICT;
INSERT INTO new_ledger SELECT id, turn, at, provider, input, cached, output FROM ledger;
DROP TABLE ledger;
ALTER TABLE new_ledger RENAME TO ledger;
CREATE INDEX ledger_turn ON ledger (turn);
CREATE INDEX ledger_at ON ledger (at);

-- An index for each foreign key: without one, SQLite reads the whole table for each row that is deleted.
CREATE INDEX inbound_of_turn ON inbound (turn);
DROP INDEX calls_turn;
CREATE INDEX calls_step ON calls (turn, step);
CREATE INDEX asks_turn ON asks (turn);
CREATE INDEX subagents_session ON subagents (session);
CREATE INDEX subagents_parent ON subagents (parent);
CREATE INDEX proposals_session ON proposals (session);
CREATE INDEX beats_session ON beats (session);

-- And one for each date by which rows are forgotten.
CREATE INDEX inbound_done ON inbound (received) WHERE state = 'done';
CREATE INDEX unreadable_received ON unreadable (received);
CREATE INDEX outbox_settled ON outbox (created) WHERE state <> 'pending';
CREATE INDEX asks_settled ON asks (expires) WHERE state <> 'open';
CREATE INDEX sessions_closed ON sessions (kind, closed) WHERE closed IS NOT NULL;
CREATE INDEX turns_ended ON turns (ended);
CREATE INDEX jobs_over ON jobs (made) WHERE state IN ('done', 'removed');

-- What can be undone, and so which files are wanted for that.
CREATE INDEX calls_undo ON calls (id) WHERE undo IS NOT NULL;
