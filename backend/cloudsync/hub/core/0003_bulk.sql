-- +goose Up
-- +goose StatementBegin
-- merge takes the rows of pg_temp.stage_<table>, which the caller has filled: id, dot, prev_dot, hlc,
-- sync_meta, schema_ver, deleted_at, extra and those columns of the row that the caller knows. It
-- decides as sync.push does; columns that the caller does not know keep their value.
create function sync.merge(p_table text) returns table (row_id uuid, result text, dot bigint)
language plpgsql set search_path = '' as $$
declare
    me uuid := app.uid();
    pol text;
    cols text; vals text; sets text;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    select policy into pol from app.synced where table_name = p_table;
    if pol is null then
        raise exception 'table % does not sync', p_table using errcode = '42P01';
    end if;
    select string_agg(quote_ident(attname), ', ' order by attnum), string_agg('c.' || quote_ident(attname), ', ' order by attnum),
           string_agg(case when attname = 'extra' then 'extra = m.extra || c.extra' else format('%1$I = c.%1$I', attname) end, ', ' order by attnum)
               filter (where attname <> 'id' and (pol = 'merge' or attname = any (sync.tombstone_columns())))
        into cols, vals, sets
        from pg_catalog.pg_attribute where attrelid = format('pg_temp.%I', 'stage_' || p_table)::regclass and attnum > 0 and not attisdropped;
    return query execute format($q$
        with c as materialized (
            select s.*, m.dot as cur, m.id is not null as found,
                case when m.dot = s.dot then 'duplicate'
                     when s.hlc >> 16 > extract(epoch from clock_timestamp()) * 1000 + 300000 then 'future'
                     when s.schema_ver < (select min_write from app.hub) then 'schema'
                     when m.id is null and s.prev_dot is not null then 'gone'
                     when m.dot is distinct from s.prev_dot then 'stale'
                     else 'applied' end as result
            from pg_temp.%2$I s left join public.%1$I m on m.user_id = $1 and m.id = s.id),
        i as (insert into public.%1$I (user_id, hub_device_id, %3$s) select $1, $2, %4$s from c where c.result = 'applied' and not c.found),
        u as (update public.%1$I m set hub_device_id = $2, %5$s from c where m.user_id = $1 and m.id = c.id and c.result = 'applied' and c.found)
        select c.id, c.result, case when c.result in ('applied', 'duplicate') then c.dot else c.cur end from c $q$,
        p_table, 'stage_' || p_table, cols, vals, sets) using me, app.device_id();
end $$;
revoke execute on function sync.merge(text) from public;
grant execute on function sync.merge(text) to helix_device;
-- +goose StatementEnd

-- +goose StatementBegin
-- expect fails when the hub has more versions of the calling device than it has packaged: its data
-- folder was copied or restored.
create function sync.expect(p_ctr bigint) returns void
language plpgsql stable security definer set search_path = '' as $$
begin
    if exists (select 1 from public.sync_state where user_id = app.uid() and device_id = app.device_id() and last_ctr > p_ctr) then
        raise exception 'this device was copied or restored' using errcode = 'HX002';
    end if;
end $$;
revoke execute on function sync.expect(bigint) from public;
grant execute on function sync.expect(bigint) to helix_device;
-- +goose StatementEnd
