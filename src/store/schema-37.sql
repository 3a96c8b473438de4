-- Columns and a table get the names that the code uses.

-- What the model received since the previous step.
ALTER TABLE steps RENAME COLUMN heard TO input;
ALTER TABLE turns RENAME COLUMN parked TO suspended;
-- JSON: Address, where people were notified that the turn waits for a model.
ALTER TABLE turns RENAME COLUMN wait_told TO wait_notified;
-- Sends of which nobody knows whether they arrived.
ALTER TABLE chunks RENAME COLUMN doubts TO ambiguous_sends;
-- 1: it has failed for so long that later ones are tried as well.
ALTER TABLE outbox RENAME COLUMN aside TO lets_others_pass;
-- When the stranger last got an answer; in the future while they get none.
ALTER TABLE strangers RENAME COLUMN told TO answered_at;
-- Why the heartbeat does not run by itself, and the last task before that; no row: it runs.
ALTER TABLE heart RENAME TO heartbeat_state;
