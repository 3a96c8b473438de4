-- Files, buttons, marks by name, several bodies.

-- 0 while files that came with a message are still being fetched.
ALTER TABLE inbound ADD COLUMN ready INTEGER NOT NULL DEFAULT 1;
CREATE INDEX inbound_unready ON inbound (channel, chat, id) WHERE state = 'waiting' AND ready = 0;
CREATE INDEX inbound_place ON inbound (channel, chat, thread, id);
-- What of the journal is looked at for the files that came to an address.
CREATE INDEX inbound_media ON inbound (channel, chat, thread)
    WHERE json_array_length(message, '$.body.media') > 0;

-- The newest that strangers said in groups, so that it is not found anew when what was missed is read.
CREATE TABLE turned_away (
    id  INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE
) STRICT;

-- Which button of a question was pressed.
ALTER TABLE outbox ADD COLUMN pressed INTEGER;

-- 1: the answer to a command, which waits behind nothing else.
ALTER TABLE outbox ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0;

-- 1: a word about a message that could not be delivered, about which there is none itself.
ALTER TABLE outbox ADD COLUMN notice INTEGER NOT NULL DEFAULT 0;

CREATE INDEX ledger_at ON ledger (at);

-- JSON: Body, in the platform's markup.
ALTER TABLE chunks RENAME COLUMN text TO body;
-- What was cut as plain text and not begun is cut anew; the rest of what was begun goes on, as HTML.
DELETE FROM chunks WHERE delivery IN (SELECT id FROM outbox WHERE state = 'pending')
    AND NOT EXISTS (SELECT 1 FROM chunks other
                    WHERE other.delivery = chunks.delivery AND other.state <> 'pending');
UPDATE chunks SET body = replace(replace(replace(body, '&', '&amp;'), '<', '&lt;'), '>', '&gt;')
    WHERE state IN ('pending', 'sending')
    AND delivery IN (SELECT id FROM outbox WHERE channel <> 'terminal');
UPDATE chunks SET body = json_object('text', body);

-- JSON: [Image], what the model was shown together with what it heard.
ALTER TABLE steps ADD COLUMN images TEXT;

-- A channel's own marks, by name: Telegram's offset, say.
CREATE TABLE named_marks (
    channel TEXT NOT NULL,
    name    TEXT NOT NULL,
    mark    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (channel, name)
) STRICT, WITHOUT ROWID;
INSERT INTO named_marks SELECT channel, '', mark, at FROM marks;
DROP TABLE marks;
ALTER TABLE named_marks RENAME TO marks;
