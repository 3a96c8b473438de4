-- The program alone knows the kinds of background tasks, so another kind needs no migration.
DROP INDEX tasks_begun;
DROP INDEX tasks_running;
DROP INDEX tasks_heartbeat;
ALTER TABLE tasks RENAME COLUMN kind TO checked_kind;
ALTER TABLE tasks ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE tasks SET kind = checked_kind;
ALTER TABLE tasks DROP COLUMN checked_kind;
CREATE INDEX tasks_begun ON tasks (kind, begun);
CREATE INDEX tasks_running ON tasks (kind, number) WHERE state = 'running';
CREATE UNIQUE INDEX tasks_heartbeat ON tasks (state) WHERE kind = 'heartbeat' AND state = 'running';

-- One index for the open sessions of tasks of all kinds.
DROP INDEX sessions_subagent;
DROP INDEX sessions_job;
DROP INDEX sessions_heartbeat;
CREATE UNIQUE INDEX sessions_task ON sessions (channel, chat, ifnull(thread, ''))
    WHERE closed IS NULL AND kind NOT IN ('chat', 'aside', 'command');
