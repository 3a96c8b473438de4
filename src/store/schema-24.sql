-- Accounts whose persons were removed: what they said before belongs to nobody any more.
CREATE TABLE former_accounts (
    channel  TEXT NOT NULL,
    sender   TEXT NOT NULL,
    -- How often the owner has removed a person with this account.
    removals INTEGER NOT NULL,
    -- When that was last.
    removed  INTEGER NOT NULL,
    PRIMARY KEY (channel, sender)
) STRICT, WITHOUT ROWID;
