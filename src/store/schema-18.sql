-- What is to be done with the folders of persons; the persona of each model call.

-- Written with the change of the person, and deleted once the folders have followed it.
CREATE TABLE folder_orders (
    id     INTEGER PRIMARY KEY,
    person INTEGER NOT NULL,
    -- join: into the folders of `joins`, or of the owner if that is NULL; archive; purge
    act    TEXT NOT NULL CHECK (act IN ('join', 'archive', 'purge')),
    joins  INTEGER
) STRICT;

-- The persona in whose name the model was called.
ALTER TABLE ledger ADD COLUMN persona TEXT;
CREATE INDEX ledger_persona ON ledger (persona, at, input, output, cost, state) WHERE persona IS NOT NULL;
