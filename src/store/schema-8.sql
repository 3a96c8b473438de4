-- Indices on what is looked up and pruned; deliveries that wait; rows that cannot be read.

-- The agent loop looks for commands each time it wakes, however many messages wait.
CREATE INDEX inbound_controls ON inbound (id) WHERE state = 'waiting' AND control = 1;
-- The outbox. Its heads are the deliveries that may be tried: of each lane (a chat, and the answers to its
-- commands) the oldest one, and those that stepped aside. Only they are looked at, in the order in which they became
-- heads, so that a look costs as much as it sends, and chats take turns.
ALTER TABLE outbox ADD COLUMN head INTEGER NOT NULL DEFAULT 0;
-- 1: it has failed for so long that later ones are tried as well.
ALTER TABLE outbox ADD COLUMN aside INTEGER NOT NULL DEFAULT 0;
-- 1: an older one had stepped aside when this one was first sent.
ALTER TABLE outbox ADD COLUMN overtakes INTEGER NOT NULL DEFAULT 0;
-- The message that it answers, also where that is plain.
ALTER TABLE outbox ADD COLUMN answers TEXT;
-- When it failed first and last, since something of it arrived; and how often others arrived between two failures.
ALTER TABLE outbox ADD COLUMN failing_since INTEGER;
ALTER TABLE outbox ADD COLUMN failed_at INTEGER;
ALTER TABLE outbox ADD COLUMN others_arrived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN others_since INTEGER;
-- 1: it was given up, and nobody there knows of it yet.
ALTER TABLE outbox ADD COLUMN unexplained INTEGER NOT NULL DEFAULT 0;

DROP INDEX outbox_pending;
CREATE INDEX outbox_lanes ON outbox (channel, chat, urgent, id) WHERE state = 'pending';
CREATE INDEX outbox_heads ON outbox (channel, urgent, next) WHERE state = 'pending' AND head = 1;
CREATE INDEX outbox_failing ON outbox (channel, failing_since)
    WHERE state = 'pending' AND failing_since IS NOT NULL;
CREATE INDEX outbox_unexplained ON outbox (channel, chat) WHERE unexplained = 1;

UPDATE outbox SET head = 1
    WHERE id IN (SELECT min(id) FROM outbox WHERE state = 'pending' GROUP BY channel, chat, urgent);

CREATE TRIGGER outbox_joins AFTER INSERT ON outbox
WHEN NEW.state = 'pending' AND NOT EXISTS
    (SELECT 1 FROM outbox WHERE state = 'pending' AND channel = NEW.channel AND chat = NEW.chat
     AND urgent = NEW.urgent AND head = 1 AND aside = 0)
BEGIN
    UPDATE outbox SET head = 1 WHERE id = NEW.id;
END;

-- The next one of the lane stands in line from now on, behind those of other chats.
CREATE TRIGGER outbox_leaves AFTER UPDATE OF state, aside ON outbox
WHEN OLD.state = 'pending' AND (NEW.state <> 'pending' OR NEW.aside > OLD.aside)
BEGIN
    UPDATE outbox SET head = 1, next = max(next, CAST(unixepoch('subsec') * 1000 AS INTEGER))
    WHERE head = 0 AND id =
        (SELECT id FROM outbox WHERE state = 'pending' AND channel = NEW.channel AND chat = NEW.chat
         AND urgent = NEW.urgent AND aside = 0 ORDER BY id LIMIT 1);
END;
-- How long a turn had worked before it was last suspended, in milliseconds.
-- The time that a turn had worked before it was last suspended, in milliseconds.
ALTER TABLE turns ADD COLUMN worked INTEGER NOT NULL DEFAULT 0;

-- 1: what a beat has to say waits until the quiet hours end.
ALTER TABLE beats ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
CREATE INDEX beats_held ON beats (id) WHERE held = 1;

-- What beats have sent by messages beside what they told in the end.
CREATE TABLE beat_messages (
    beat    INTEGER NOT NULL REFERENCES beats (id) ON DELETE CASCADE,
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    thread  TEXT,
    words   TEXT NOT NULL,
    tainted INTEGER NOT NULL                    -- 1: who said so had read what strangers wrote
) STRICT;
CREATE INDEX beat_messages_beat ON beat_messages (beat);
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
