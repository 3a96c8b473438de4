-- JSON: ShownCall, while it is open. NULL: a question, or asked by a former version.
ALTER TABLE asks ADD COLUMN shown TEXT;

-- The message that asks for a decision. NULL: decided by then, or its message is gone.
ALTER TABLE proposals ADD COLUMN delivery INTEGER;
UPDATE proposals SET delivery = asked.id FROM
    (SELECT id, CASE WHEN json_valid(body) THEN json_extract(body, '$.choice.proposal') END AS proposal FROM outbox)
    AS asked
WHERE asked.proposal = proposals.id AND proposals.state = 'open';
CREATE INDEX proposals_open ON proposals (delivery) WHERE state = 'open';
