-- Commands of jobs, and what the program says in conversations by itself.

-- When a run's command began, which is never begun a second time.
ALTER TABLE runs ADD COLUMN began INTEGER;

-- 1: a finished turn that nobody worked on there, for what was said there by the program itself.
ALTER TABLE turns ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
