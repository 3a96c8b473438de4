-- Compaction within a turn; what the owner is told once.

-- So many of the first steps of the turn `begins` are part of the summary.
ALTER TABLE sessions ADD COLUMN begins_step INTEGER NOT NULL DEFAULT 0;

-- What the owner was told, by what it is about, so that it is not told again.
CREATE TABLE notices (
    key TEXT PRIMARY KEY,
    at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
