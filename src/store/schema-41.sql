-- The first question that was asked in the same message: "all" covers no others of its turn.
ALTER TABLE asks ADD COLUMN batch INTEGER;          -- asks.id
UPDATE asks SET batch = (SELECT min(b.id) FROM asks b WHERE b.turn = asks.turn AND b.delivery = asks.delivery);
