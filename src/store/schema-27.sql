-- What is spent of each budget in its present day or month, reservations included: a running sum, so that a call
-- costs the same however many were made before. The triggers keep it equal to the ledger, whoever changes that.
CREATE TABLE ledger_sums (
    part     TEXT NOT NULL,                 -- all, `cause job`, `job 3`, `person 5` or `persona kid`
    period   TEXT NOT NULL,                 -- day or month
    since    INTEGER NOT NULL,              -- rows of the ledger from then on
    tokens   INTEGER NOT NULL,
    cost     INTEGER NOT NULL,              -- in billionths of a dollar
    reserved INTEGER NOT NULL,              -- of the tokens, those of calls that are under way
    PRIMARY KEY (part, period)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER ledger_row_added AFTER INSERT ON ledger
BEGIN
    UPDATE ledger_sums SET
        tokens = tokens + new.input + new.output,
        cost = cost + ifnull(new.cost, 0),
        reserved = reserved + iif(new.state = 'reserved', new.input + new.output, 0)
    WHERE since <= new.at AND part IN (
        'all', 'cause ' || new.cause, iif(new.cause = 'job', 'job ' || new.job, NULL),
        'person ' || new.person, 'persona ' || new.persona);
END;

CREATE TRIGGER ledger_row_removed AFTER DELETE ON ledger
BEGIN
    UPDATE ledger_sums SET
        tokens = tokens - old.input - old.output,
        cost = cost - ifnull(old.cost, 0),
        reserved = reserved - iif(old.state = 'reserved', old.input + old.output, 0)
    WHERE since <= old.at AND part IN (
        'all', 'cause ' || old.cause, iif(old.cause = 'job', 'job ' || old.job, NULL),
        'person ' || old.person, 'persona ' || old.persona);
END;

-- A call has ended.
CREATE TRIGGER ledger_row_settled AFTER UPDATE OF input, output, cost, state ON ledger
BEGIN
    UPDATE ledger_sums SET
        tokens = tokens + new.input + new.output - old.input - old.output,
        cost = cost + ifnull(new.cost, 0) - ifnull(old.cost, 0),
        reserved = reserved + iif(new.state = 'reserved', new.input + new.output, 0)
            - iif(old.state = 'reserved', old.input + old.output, 0)
    WHERE since <= old.at AND part IN (
        'all', 'cause ' || old.cause, iif(old.cause = 'job', 'job ' || old.job, NULL),
        'person ' || old.person, 'persona ' || old.persona);
END;

-- A row counts for others now, or for another time: their sums are made anew at the next call.
CREATE TRIGGER ledger_row_moved AFTER UPDATE OF at, person, cause, job, persona ON ledger
BEGIN
    DELETE FROM ledger_sums WHERE part IN (
        'all', 'cause ' || old.cause, 'job ' || old.job, 'person ' || old.person, 'persona ' || old.persona,
        'cause ' || new.cause, 'job ' || new.job, 'person ' || new.person, 'persona ' || new.persona);
END;

-- Sums are kept, so these need not hold what is summed: each call wrote it twice into each of them.
DROP INDEX ledger_at;
DROP INDEX ledger_person;
DROP INDEX ledger_persona;
CREATE INDEX ledger_at ON ledger (at);
CREATE INDEX ledger_person ON ledger (person, at) WHERE person IS NOT NULL;
CREATE INDEX ledger_persona ON ledger (persona, at) WHERE persona IS NOT NULL;
CREATE INDEX ledger_job ON ledger (job, at) WHERE job IS NOT NULL;
