-- Calls that nobody could be asked about are told of in one message: when the turn that tried them ends, or after quiet
-- hours.

-- JSON: ReportTerms; null: people were told of it.
ALTER TABLE deferred_calls ADD COLUMN untold TEXT;
-- The turn that tried it, until people are told.
ALTER TABLE deferred_calls ADD COLUMN turn INTEGER;
-- 1: people are told when the quiet hours end.
ALTER TABLE deferred_calls ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
-- Who may have it made: admins, person or nobody.
ALTER TABLE deferred_calls ADD COLUMN decider TEXT NOT NULL DEFAULT 'admins';
CREATE INDEX deferred_calls_turn ON deferred_calls (turn) WHERE turn IS NOT NULL;
CREATE INDEX deferred_calls_held ON deferred_calls (id) WHERE held = 1;
