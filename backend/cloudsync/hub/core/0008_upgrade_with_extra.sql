-- +goose Up
-- +goose StatementBegin
-- As before, but a column that the hub has and the stage lacks gets its value from extra, as in sync.push.
-- Such a value was lost when an older device sent the row in a batch, or when a newer one had created its
-- stage before the hub got the column.
create or replace function sync.merge(p_table text) returns table (row_id uuid, result text, dot bigint)
language plpgsql set search_path = '' set enable_hashjoin = off set enable_mergejoin = off set enable_material = off as $$
declare
    me uuid := app.uid();
    pol text;
    cols text; vals text; sets text; rec text := '';
    late text[];
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    select policy into pol from app.synced where table_name = p_table;
    if pol is null then
        raise exception 'table % does not sync', p_table using errcode = '42P01';
    end if;
    select string_agg(quote_ident(attname), ', ' order by attnum), string_agg('c.' || quote_ident(attname) || case when attname = 'extra' then ' - $3' else '' end, ', ' order by attnum),
           string_agg(case when attname = 'extra' then 'extra = (m.extra || excluded.extra) - $3' else format('%1$I = excluded.%1$I', attname) end, ', ' order by attnum)
               filter (where attname <> 'id' and (pol = 'merge' or attname = any (sync.tombstone_columns())))
        into cols, vals, sets
        from pg_catalog.pg_attribute where attrelid = format('pg_temp.%I', 'stage_' || p_table)::regclass and attnum > 0 and not attisdropped;
    select array_agg(name order by name) into late from unnest(sync.columns_of(p_table)) name
        where name not in ('user_id', 'hub_device_id') and not exists (select from pg_catalog.pg_attribute where attrelid = format('pg_temp.%I', 'stage_' || p_table)::regclass and attname = name and not attisdropped);
    if late is not null then
        rec := ', jsonb_populate_record(m, coalesce(m.extra, ''{}'') || s.extra) as rec';
        select cols || string_agg(format(', %I', name), ''), vals || string_agg(format(', (c.rec).%I', name), ''),
               sets || case when pol = 'merge' then string_agg(format(', %1$I = excluded.%1$I', name), '') else '' end
            into cols, vals, sets from unnest(late) name;
    end if;
    return query execute format($q$
        with c as materialized (
            select s.*, m.dot as cur, m.id is not null as found,
                case when m.dot = s.dot then 'duplicate'
                     when s.hlc >> 16 > extract(epoch from clock_timestamp()) * 1000 + 300000 then 'future'
                     when s.schema_ver < (select min_write from app.hub) then 'schema'
                     when m.id is null and s.prev_dot is not null then 'gone'
                     when m.dot is distinct from s.prev_dot then 'stale'
                     else 'applied' end as result%6$s
            from pg_temp.%2$I s left join public.%1$I m on m.user_id = $1 and m.id = s.id),
        i as (insert into public.%1$I (user_id, hub_device_id, %3$s) select $1, $2, %4$s from c where c.result = 'applied' and not c.found),
        u as (insert into public.%1$I as m (user_id, hub_device_id, %3$s) select $1, $2, %4$s from c where c.result = 'applied' and c.found
            on conflict (user_id, id) do update set hub_device_id = excluded.hub_device_id, %5$s)
        select c.id, c.result, case when c.result in ('applied', 'duplicate') then c.dot else c.cur end from c $q$,
        p_table, 'stage_' || p_table, cols, vals, sets, rec) using me, app.device_id(), sync.columns_of(p_table);
end $$;
-- +goose StatementEnd
