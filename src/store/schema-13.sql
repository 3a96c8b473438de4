-- Whether the question offered to allow the tool for good. Rows of before did not say.
ALTER TABLE asks ADD COLUMN offers_always INTEGER NOT NULL DEFAULT 0;
