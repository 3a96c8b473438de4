-- What the command of a job sees: its person's workspace, the paths that it names, or the network. JSON: CommandNeeds.
ALTER TABLE jobs ADD COLUMN needs TEXT NOT NULL DEFAULT '"workspace"';
