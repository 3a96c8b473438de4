-- Indices on what is looked up and pruned; deliveries that wait; rows that cannot be read.

-- The agent loop looks for commands each time it wakes, however many messages wait.
CREATE INDEX inbound_controls ON inbound (id) WHERE state = 'waiting' AND control = 1;
