-- What people had forgotten: whose texts, and a digest that finds the words again in a backup from before.
CREATE TABLE forgotten_words (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    -- JSON: ForgottenScope.
    scope  TEXT NOT NULL,
    -- JSON: WordsDigest.
    digest TEXT NOT NULL
) STRICT;
