-- Conversations that leave nothing behind.

-- JSON: IncognitoRange; NULL: it is kept.
ALTER TABLE sessions ADD COLUMN incognito TEXT;
CREATE INDEX sessions_incognito ON sessions (id) WHERE incognito IS NOT NULL;
