-- The account that asked for the link of a sign-in; null: the link was made on this machine. The sign-in is valid while the
-- account belongs to its person.
ALTER TABLE web_logins ADD COLUMN asked_on TEXT;    -- its channel
ALTER TABLE web_logins ADD COLUMN asked_by TEXT;    -- its id there
-- Nobody knows who asked for the earlier ones, so people sign in again.
DELETE FROM web_logins;
