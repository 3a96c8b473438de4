-- Where people are told what comes of a background task; null for other conversations.
ALTER TABLE sessions ADD COLUMN people_channel TEXT;
ALTER TABLE sessions ADD COLUMN people_chat TEXT;
ALTER TABLE sessions ADD COLUMN people_thread TEXT;

UPDATE sessions SET (people_channel, people_chat, people_thread) =
    (SELECT p.channel, p.chat, p.thread FROM subagents a JOIN sessions p ON p.id = a.parent
     WHERE a.session = sessions.id)
    WHERE kind = 'subagent';
UPDATE sessions SET (people_channel, people_chat, people_thread) =
    (SELECT channel, chat, thread FROM jobs WHERE id = CAST(sessions.chat AS INTEGER))
    WHERE kind = 'job';
UPDATE sessions SET (people_channel, people_chat, people_thread) =
    (SELECT channel, chat, thread FROM beats WHERE session = sessions.id)
    WHERE kind = 'heartbeat';
