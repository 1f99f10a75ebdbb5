-- A batch that was committed before its checkpoint was, comes again: its rows are already there.
INSERT INTO flights SELECT * FROM batch ON CONFLICT (line) DO NOTHING
