-- +goose Up
-- Pruning finds what refers to a blob by the names of columns. The source of an import stands
-- inside its options, so it gets a column; an import that has ended does not need it any more.
ALTER TABLE memory_imports ADD COLUMN source_blob TEXT GENERATED ALWAYS AS (CASE WHEN status IN ('pending', 'running') THEN options ->> '$.blob' END) VIRTUAL;
