-- +goose Up
-- +goose StatementBegin
-- insert_new stores the rows of pg_temp.stage_<table>, which the caller has filled as for sync.merge, none of
-- which exists yet. It returns their number. It fails if one of them exists or sync.merge would not apply it;
-- the caller then sends all of them by another way.
create function sync.insert_new(p_table text) returns bigint
language plpgsql set search_path = '' as $$
declare
    me uuid := app.uid();
    most bigint := ((extract(epoch from clock_timestamp()) * 1000 + 300000)::bigint + 1) << 16;
    oldest int := (select min_write from app.hub);
    cols text;
    fits boolean;
    n bigint;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    if not exists (select 1 from app.synced where table_name = p_table) then
        raise exception 'table % does not sync', p_table using errcode = '42P01';
    end if;
    execute format('select bool_and(prev_dot is null and hlc < $1 and schema_ver >= $2) from pg_temp.%I', 'stage_' || p_table) into fits using most, oldest;
    if not fits then
        raise exception 'rows that are not new' using errcode = '22023';
    end if;
    select string_agg(quote_ident(attname), ', ' order by attnum) into cols
        from pg_catalog.pg_attribute where attrelid = format('pg_temp.%I', 'stage_' || p_table)::regclass and attnum > 0 and not attisdropped;
    execute format('insert into public.%I (user_id, hub_device_id, %s) select $1, $2, %2$s from pg_temp.%3$I', p_table, cols, 'stage_' || p_table) using me, app.device_id();
    get diagnostics n = row_count;
    return n;
end $$;
revoke execute on function sync.insert_new(text) from public;
grant execute on function sync.insert_new(text) to helix_device;
-- +goose StatementEnd
