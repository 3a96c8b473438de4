-- The files of a call as people were shown them: an approval covers no others.
ALTER TABLE asks ADD COLUMN files TEXT;             -- JSON: CallFiles; null: none, or unknown
ALTER TABLE deferred_calls ADD COLUMN files TEXT;   -- likewise
