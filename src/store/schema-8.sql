-- Indices on what is looked up and pruned; deliveries that wait; rows that cannot be read.

-- How long a turn had worked before it was last suspended, in milliseconds.
ALTER TABLE turns ADD COLUMN worked INTEGER NOT NULL DEFAULT 0;
