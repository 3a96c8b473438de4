-- What commands change of what the bot goes by; pictures of answers; whose words old turns retell.

-- What the bot goes by, as it was when it was last looked at; only while something may change it unseen.
CREATE TABLE rule_watch (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    rules TEXT NOT NULL,                    -- JSON: path → hash, or what else tells that it changed
    whole INTEGER NOT NULL,                 -- 0: there are more files than are looked at
    since INTEGER NOT NULL,
    actor TEXT NOT NULL                     -- JSON: what may change it, for whom, and who is told
) STRICT;

-- JSON: pictures that came with the answer which is the call's outcome.
ALTER TABLE calls ADD COLUMN images TEXT;

-- 1: a call of the turn, forgotten since, has read what strangers wrote.
ALTER TABLE turns ADD COLUMN read_others INTEGER NOT NULL DEFAULT 0;
