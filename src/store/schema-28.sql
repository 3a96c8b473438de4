-- The texts of MCP servers that stand in prompts, as the owner accepted them.

CREATE TABLE mcp_pins (
    server TEXT PRIMARY KEY,
    -- What the config says of the server: where it is, and which tools it may offer.
    configured TEXT NOT NULL,
    -- JSON: Vec<PinnedTool>, by name.
    accepted TEXT NOT NULL,
    -- JSON: the same, if the server offers other texts now.
    offered TEXT,
    -- True if the owner was asked about these, and when they were last asked about the server.
    is_asked INTEGER NOT NULL DEFAULT 0,
    asked INTEGER
) STRICT;
