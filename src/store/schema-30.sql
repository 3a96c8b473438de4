-- Files that people sent.
CREATE TABLE attachments (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    -- The message in the journal, and the address at which it came.
    row       INTEGER NOT NULL,
    channel   TEXT NOT NULL,
    chat      TEXT NOT NULL,
    thread    TEXT,
    -- The account that sent it.
    sender    TEXT NOT NULL,
    -- It belongs to a message that was forwarded or quoted.
    forwarded INTEGER NOT NULL,
    -- The folder of the person or the group, and the file in it.
    folder    TEXT NOT NULL,
    path      TEXT NOT NULL UNIQUE,
    name      TEXT,
    mime      TEXT,
    size      INTEGER NOT NULL,
    hash      TEXT NOT NULL,
    -- Of a document: its text.
    text      TEXT,
    at        INTEGER NOT NULL,
    -- The file is to be deleted, and then the row.
    gone      INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX attachments_folder ON attachments (folder, at);
CREATE INDEX attachments_place ON attachments (channel, chat, row);
CREATE INDEX attachments_gone ON attachments (id) WHERE gone;
