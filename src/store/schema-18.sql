-- What is to be done with the folders of persons.

-- Written with the change of the person, and deleted once the folders have followed it.
CREATE TABLE folder_orders (
    id     INTEGER PRIMARY KEY,
    person INTEGER NOT NULL,
    -- join: into the folders of `joins`, or of the owner if that is NULL; archive; purge
    act    TEXT NOT NULL CHECK (act IN ('join', 'archive', 'purge')),
    joins  INTEGER
) STRICT;
