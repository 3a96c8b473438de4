-- The index of what can be found again: turns of conversations, and files of text.

-- Files that were indexed, as they were then.
CREATE TABLE recall_files (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    path     TEXT NOT NULL UNIQUE,
    -- RecallKey of its folder.
    who      TEXT NOT NULL,
    -- In nanoseconds since 1970.
    modified INTEGER NOT NULL,
    size     INTEGER NOT NULL
) STRICT;
CREATE INDEX recall_files_who ON recall_files (who);

-- A passage of a turn or of a file.
CREATE TABLE recall_entries (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    -- RecallKey: who may find it.
    who    TEXT NOT NULL,
    kind   TEXT NOT NULL CHECK (kind IN ('file', 'turn', 'fact')),
    -- The id of the file, turn or fact.
    source INTEGER NOT NULL,
    -- Its first line in a file, from 1.
    line   INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    text   TEXT NOT NULL
) STRICT;
CREATE INDEX recall_entries_source ON recall_entries (kind, source);

-- The words of the entries; the rowid is the entry's id. It keeps no texts.
CREATE VIRTUAL TABLE recall_index USING fts5 (
    who, text, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);
-- A leaf fits into a page of the database.
INSERT INTO recall_index (recall_index, rank) VALUES ('pgsz', 900);
-- Deleted words leave the index at once.
INSERT INTO recall_index (recall_index, rank) VALUES ('secure-delete', 1);

-- Turns below it were made before the index, and are not in it yet.
CREATE TABLE recall_backfill (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    below INTEGER NOT NULL
) STRICT;
INSERT INTO recall_backfill (one, below) VALUES (1, (SELECT ifnull(max(id), 0) + 1 FROM turns));

-- What people asked the bot to remember.
CREATE TABLE facts (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    -- RecallKey of the account that said it, or of the group.
    who      TEXT NOT NULL,
    kind     TEXT NOT NULL,
    text     TEXT NOT NULL,
    -- expired: it made way for others in the prompt, and is still found.
    status   TEXT NOT NULL CHECK (status IN ('active', 'expired')),
    -- JSON: [Source]
    sources  TEXT NOT NULL,
    made     INTEGER NOT NULL,
    -- When a message last had to do with it, and how often one had.
    used     INTEGER NOT NULL,
    accesses INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX facts_who ON facts (who, status);
