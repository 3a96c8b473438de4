-- The kind of a chat: private or group. JSON: ChatKind.
ALTER TABLE sessions RENAME COLUMN place TO chat_kind;
ALTER TABLE jobs RENAME COLUMN place TO chat_kind;
ALTER TABLE deferred_calls RENAME COLUMN place TO chat_kind;
