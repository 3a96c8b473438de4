-- One table for background tasks of all kinds, in place of subagents, runs and beats.

-- What queries look for is a column; the rest of what differs between the kinds is in `details`.
CREATE TABLE tasks (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    kind    TEXT NOT NULL CHECK (kind IN ('subagent', 'job', 'heartbeat')),
    -- By which people know it: of a run of a job, the job's.
    number  INTEGER NOT NULL,
    -- A run's job, and when it was due.
    job     INTEGER REFERENCES jobs (id),
    due     INTEGER,
    -- Its own; null: it works in a conversation with people, has no turn, or the session was forgotten.
    session INTEGER REFERENCES sessions (id) ON DELETE SET NULL,
    -- Where its people are.
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    thread  TEXT,
    begun   INTEGER NOT NULL,
    -- The row of the journal with its assignment; null: there is no turn.
    row     INTEGER,
    -- The turn that works on it.
    turn    INTEGER,
    state   TEXT NOT NULL CHECK (state IN ('running', 'done', 'silent', 'repeated', 'failed', 'stopped',
                                           'interrupted', 'skipped')),
    ended   INTEGER,
    -- The beginning of its result, or why there is none.
    words   TEXT,
    -- 1: the result may come from untrusted content.
    tainted INTEGER NOT NULL DEFAULT 0,
    -- 1: the result waits until the quiet hours end.
    held    INTEGER NOT NULL DEFAULT 0,
    -- JSON: the type of its kind in src/tasks.
    details TEXT NOT NULL,
    UNIQUE (job, due)
) STRICT;

-- The last number that a task of each kind was given, so that none is given twice.
CREATE TABLE task_numbers (
    kind TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO task_numbers (kind, last) VALUES
    ('subagent', ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'subagents'), 0)),
    ('heartbeat', ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'beats'), 0));

INSERT INTO tasks (kind, number, session, channel, chat, thread, begun, state, ended, words, details)
SELECT 'subagent', a.id, a.session, p.channel, p.chat, p.thread, a.begun, a.state, a.ended, a.result,
       json_object('parent', a.parent, 'call', a.call, 'task', a.task)
FROM subagents a JOIN sessions p ON p.id = a.parent ORDER BY a.id;

INSERT INTO tasks (kind, number, session, channel, chat, thread, begun, row, state, ended, words, tainted, held,
                   details)
SELECT 'heartbeat', id, (SELECT id FROM sessions WHERE id = beats.session), channel, chat, thread, begun, row,
       iif(state = 'told', 'done', state), iif(state = 'running', NULL, begun), words, tainted, held,
       json_object('known_on', known_on, 'place', json(iif(json_valid(place), place, '"group"')),
                   'asked', json(iif(asked, 'true', 'false')))
FROM beats ORDER BY id;

-- A run has a session of its own if its turn, or the row of the journal that no turn has taken yet, tells so.
INSERT INTO tasks (kind, number, job, due, session, channel, chat, thread, begun, row, turn, state, ended, words,
                   details)
SELECT 'job', r.job, r.job, r.due,
       ifnull((SELECT s.id FROM turns t JOIN sessions s ON s.id = t.session WHERE t.id = r.turn AND s.kind = 'job'),
              (SELECT s.id FROM inbound i JOIN sessions s ON s.kind = 'job' AND s.chat = i.chat
               WHERE i.id = r.row AND i.channel = '(job)' AND r.state = 'running' AND s.closed IS NULL)),
       j.channel, j.chat, j.thread, r.claimed, r.row, r.turn, r.state, r.ended, r.words,
       json_object('late', json(iif(r.late, 'true', 'false')), 'began', r.began)
FROM runs r JOIN jobs j ON j.id = r.job ORDER BY r.id;

-- The journal knows the assignments of former runs by their ids, and none of them may come again.
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'tasks', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tasks');
UPDATE sqlite_sequence SET seq =
    (SELECT max(seq) FROM sqlite_sequence WHERE name IN ('tasks', 'runs', 'beats', 'subagents'))
    WHERE name = 'tasks';

CREATE INDEX tasks_session ON tasks (session);
CREATE INDEX tasks_begun ON tasks (kind, begun);
-- The running ones are few.
CREATE INDEX tasks_running ON tasks (kind, number) WHERE state = 'running';
CREATE INDEX tasks_turn ON tasks (turn) WHERE state = 'running';
CREATE INDEX tasks_row ON tasks (row) WHERE state = 'running';
CREATE UNIQUE INDEX tasks_heartbeat ON tasks (state) WHERE kind = 'heartbeat' AND state = 'running';
CREATE INDEX tasks_held ON tasks (id) WHERE held = 1;

-- What heartbeat runs have sent by messages beside their results.
CREATE TABLE task_messages (
    task    INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    channel TEXT NOT NULL,
    chat    TEXT NOT NULL,
    thread  TEXT,
    words   TEXT NOT NULL,
    tainted INTEGER NOT NULL                    -- 1: it may come from untrusted content
) STRICT;
CREATE INDEX task_messages_task ON task_messages (task);
INSERT INTO task_messages (task, channel, chat, thread, words, tainted)
SELECT t.id, m.channel, m.chat, m.thread, m.words, m.tainted
FROM beat_messages m JOIN tasks t ON t.kind = 'heartbeat' AND t.number = m.beat ORDER BY m.rowid;

-- The switch of the heartbeat knows the last run before it by its id.
UPDATE heart SET after = ifnull((SELECT max(id) FROM tasks WHERE kind = 'heartbeat' AND number <= heart.after), 0);

DROP TABLE beat_messages;
DROP TABLE beats;
DROP TABLE runs;
DROP TABLE subagents;
