-- Commands that have the network and can change paths of a workspace, while they run. Rows that a start finds are of
-- commands that were cut off: people are told.
CREATE TABLE watched_commands (
    id    INTEGER PRIMARY KEY,
    at    TEXT NOT NULL,                    -- JSON: Address of its people
    paths TEXT NOT NULL                     -- JSON: [path], as the command named them
) STRICT;
