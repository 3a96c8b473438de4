-- Facts that the bot notices by itself in conversations.

-- told: its person asked for it. noticed: it was read in trusted content. offered: it was read in untrusted content,
-- and waits for its person. kept: its person has kept it since.
ALTER TABLE facts ADD COLUMN origin TEXT NOT NULL DEFAULT 'told'
    CHECK (origin IN ('told', 'noticed', 'offered', 'kept'));
-- When it stopped being true, and the fact that took its place; NULL: it holds.
ALTER TABLE facts ADD COLUMN ended INTEGER;
ALTER TABLE facts ADD COLUMN replaced_by INTEGER;

-- Conversations that were read for facts, as long as a later turn of them may follow.
CREATE TABLE extractions (
    session  INTEGER PRIMARY KEY,
    -- The last turn that was read.
    taken    INTEGER NOT NULL,
    -- Attempts in a row at the turns after it, and the time of the next one.
    failures INTEGER NOT NULL DEFAULT 0,
    next     INTEGER
) STRICT;

-- All turns up to `floor` were read. `forgets` changes when somebody has words forgotten: what was read before is then
-- read again.
CREATE TABLE extraction_state (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    floor   INTEGER NOT NULL,
    forgets INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO extraction_state (one, floor) VALUES (1, (SELECT ifnull(max(id), 0) FROM turns));
