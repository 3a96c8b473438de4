-- Names of conversations, and their move to other places.

-- As a model has named it; NULL: its first words are its name.
ALTER TABLE sessions ADD COLUMN name TEXT;
-- JSON: the channel and the account of the person who continued it where it is now; NULL: it began there.
ALTER TABLE sessions ADD COLUMN moved TEXT;
