-- The last good version of each instruction file, which stays in force while the file cannot be read.
CREATE TABLE instruction_versions (
    path TEXT PRIMARY KEY,
    -- NULL if the file could never be read.
    text TEXT,
    -- Why the file cannot be read now; the owner was told. NULL if it can.
    blocked TEXT,
    changed INTEGER NOT NULL
) STRICT;
