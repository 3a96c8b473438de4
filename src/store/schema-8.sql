-- Indices on what is looked up and pruned; deliveries that wait; rows that cannot be read.

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
