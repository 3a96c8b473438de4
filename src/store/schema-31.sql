-- Files of the owner's workspace that others may have written before a turn that had read untrusted content had to ask.
-- They are untrusted until the owner decides.
CREATE TABLE marked_files (
    path   TEXT PRIMARY KEY,
    hash   TEXT NOT NULL,                   -- of the content that was found
    author TEXT                             -- who wrote it; NULL: a turn that had read untrusted content
) STRICT;

-- A home of a former version is looked through once. No row in a new home.
CREATE TABLE former_home (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    state TEXT NOT NULL                     -- due | found: its owner was not told yet | told
) STRICT;
INSERT INTO former_home (one, state) SELECT 1, 'due' WHERE EXISTS (SELECT 1 FROM turns);
