-- +goose Up
-- +goose StatementBegin
-- Only pruning looks for the entries of a row. An id names one without its user and table, and new rows have
-- the largest ids, so adding them is cheap.
drop index public.sync_change_log_row;
create index sync_change_log_row on public.sync_change_log (row_id, seq);
-- +goose StatementEnd
