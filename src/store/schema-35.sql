-- Where a summary has untrusted parts: a summary of the trusted ones, with its sources (JSON: [Source]). NULL: a former
-- version made the summary, or nothing of it is untrusted.
ALTER TABLE sessions ADD COLUMN trusted_summary TEXT;
ALTER TABLE sessions ADD COLUMN trusted_sources TEXT;
-- Parts that the summary leaves out as untrusted; 0 where a former version left them out.
ALTER TABLE sessions ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;
