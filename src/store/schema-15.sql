-- Turns that wait for a model that cannot be reached.

-- JSON: ModelWait, from the first failure until the model has answered.
ALTER TABLE turns ADD COLUMN model_wait TEXT;
-- JSON: Address, where people were told that the turn waits.
ALTER TABLE turns ADD COLUMN wait_told TEXT;
CREATE INDEX turns_awaiting ON turns (id) WHERE model_wait IS NOT NULL AND ending IS NULL;
