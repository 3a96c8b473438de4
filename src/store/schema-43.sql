-- A message that is no JSON can be changed and deleted as every other: the former expression failed on it.
DROP INDEX inbound_media;
CREATE INDEX inbound_media ON inbound (channel, chat, thread)
    WHERE iif(json_valid(message), json_array_length(message, '$.body.media'), 0) > 0;
