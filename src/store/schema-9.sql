-- Sources: who or what wrote what a model was shown. Rows of before have none.

-- JSON: [Span], the sources of `heard`, part by part.
ALTER TABLE steps ADD COLUMN sources TEXT;
-- JSON: [Source], those of `output`.
ALTER TABLE calls ADD COLUMN sources TEXT;
-- JSON: [Source], those of calls of the turn that are forgotten since. It takes the place of `read_others`.
ALTER TABLE turns ADD COLUMN sources TEXT;
-- JSON: [Source], of what a proposal says.
ALTER TABLE proposals ADD COLUMN sources TEXT;
