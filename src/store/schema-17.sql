-- The page in the browser.

-- Browsers that are signed in. The hash is of the cookie.
CREATE TABLE web_logins (
    hash   TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    since  INTEGER NOT NULL,
    seen   INTEGER NOT NULL,
    agent  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Pages read the messages of their chat from the outbox.
CREATE INDEX outbox_web ON outbox (chat, id) WHERE channel = 'web';
