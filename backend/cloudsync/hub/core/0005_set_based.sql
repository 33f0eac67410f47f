-- +goose Up
-- +goose StatementBegin
-- This file removes work that was done for each row where once for each statement is enough.

-- sync_change_log is written only by the triggers below, which take the user from a row that already
-- refers to app.hub_user. remove_user deletes its rows.
alter table public.sync_change_log drop constraint sync_change_log_user_id_fkey;

-- take reserves positions in the feed for n rows, of which p_dot is the newest version. base is the
-- position before the first.
create or replace function sync.take(p_n bigint, p_dot bigint, out base bigint, out batch bigint)
language plpgsql security definer set search_path = '' as $$
declare
    ch text;
    me uuid := app.uid();
    dev uuid := app.device_id();
begin
    update public.sync_head set seq = seq + p_n where user_id = me returning seq - p_n, channel into base, ch;
    if base is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    batch := coalesce(nullif(current_setting('sync.batch', true), '')::bigint, base + 1);
    update public.sync_state set last_ctr = p_dot & ((1::bigint << 40) - 1) where user_id = me and device_id = dev and last_ctr < p_dot & ((1::bigint << 40) - 1);
    perform pg_notify(ch, (base + p_n)::text);
end $$;

create or replace function sync.record_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    me_site int := app.site();
    v_n bigint; v_dot bigint; v_own boolean; v_base bigint; v_batch bigint;
begin
    select count(*), max(dot), bool_and(dot >> 40 is not distinct from me_site and hub_device_id is not distinct from dev and user_id is not distinct from me) into v_n, v_dot, v_own from new_rows;
    if v_n = 0 then return null; end if;
    if not v_own then
        raise exception 'a version of another device' using errcode = '42501';
    end if;
    select t.base, t.batch into v_base, v_batch from sync.take(v_n, v_dot) t;
    insert into public.sync_change_log (user_id, seq, batch, table_name, row_id, operation, dot, hlc, device_id)
        select user_id, v_base + row_number() over (), v_batch, tg_table_name, id, case when deleted_at is null then 'INSERT' else 'DELETE' end, dot, hlc, hub_device_id from new_rows;
    return null;
end $$;

-- push and merge disable hash joins, which this check of many rows needs.
create or replace function sync.record_update() returns trigger
language plpgsql security definer set search_path = '' set enable_hashjoin = on as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    me_site int := app.site();
    v_n bigint; v_dot bigint; v_own boolean; v_base bigint; v_batch bigint;
begin
    select count(*), max(dot), bool_and(dot >> 40 is not distinct from me_site and hub_device_id is not distinct from dev and user_id is not distinct from me) into v_n, v_dot, v_own from new_rows;
    if v_n = 0 then return null; end if;
    if not v_own then
        raise exception 'a version of another device' using errcode = '42501';
    end if;
    if exists (select 1 from new_rows w left join old_rows o on o.user_id = w.user_id and o.id = w.id where o.dot is distinct from w.prev_dot or w.dot = o.dot) then
        raise exception 'the row has changed' using errcode = '40001';
    end if;
    select t.base, t.batch into v_base, v_batch from sync.take(v_n, v_dot) t;
    insert into public.sync_change_log (user_id, seq, batch, table_name, row_id, operation, dot, hlc, device_id)
        select user_id, v_base + row_number() over (), v_batch, tg_table_name, id, case when deleted_at is null then 'UPDATE' else 'DELETE' end, dot, hlc, hub_device_id from new_rows;
    return null;
end $$;

-- lock serializes the pushes of a user, begins a batch and returns the head of the feed. It fails if a
-- newer connection of the same device, such as a copy's, has taken over.
create or replace function sync.lock() returns bigint
language plpgsql security definer set search_path = '' as $$
declare
    s bigint;
    me uuid := app.uid();
    dev uuid := app.device_id();
begin
    select seq into s from public.sync_head where user_id = me for update;
    if s is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    if exists (select 1 from public.sync_state where user_id = me and device_id = dev and epoch::text is distinct from current_setting('helix.epoch', true)) then
        raise exception 'a copy of this device is connected' using errcode = 'HX002';
    end if;
    perform set_config('sync.batch', (s + 1)::text, true);
    return s;
end $$;

-- push_sql returns the statement that stores rows of one table. The version that a row names as its
-- predecessor must be the current one. Columns that this hub lacks are kept in extra until the hub has
-- them. The ids are cast before the join: row-level security keeps a cast, which can fail, from being
-- used with the primary key, so that each push would read the whole table.
create or replace function sync.push_sql(p_table text) returns text
language plpgsql stable set search_path = '' as $$
declare
    pol text;
    all_cols text; values_ text; sets text;
begin
    select policy into pol from app.synced where table_name = p_table;
    if pol is null then
        raise exception 'table % does not sync', p_table using errcode = '42P01';
    end if;
    select string_agg(quote_ident(attname), ', ' order by attnum), string_agg(format('(c.rec).%I', attname), ', ' order by attnum),
           string_agg(format('%1$I = (c.rec).%1$I', attname), ', ' order by attnum) filter (where attname not in ('user_id', 'id') and (pol = 'merge' or attname = any (sync.tombstone_columns())))
        into all_cols, values_, sets
        from pg_catalog.pg_attribute where attrelid = format('public.%I', p_table)::regclass and attnum > 0 and not attisdropped;
    return format($q$
        with r as materialized (
            select $2 + e.ord::int as n, (x ->> 'id')::uuid as id, (x ->> 'dot')::bigint as dot, (x ->> 'prevDot')::bigint as prev_dot, (x ->> 'hlc')::bigint as hlc,
                (x ->> 'schemaVer')::int as schema_ver, x -> 'cols' as cols,
                (x -> 'cols') || jsonb_build_object('id', x -> 'id', 'user_id', $3, 'dot', x -> 'dot', 'prev_dot', x -> 'prevDot', 'hlc', x -> 'hlc', 'hub_device_id', $4,
                    'sync_meta', '\x' || encode(decode(x ->> 'meta', 'base64'), 'hex'), 'schema_ver', x -> 'schemaVer', 'deleted_at', x -> 'deletedAt') as v
            from jsonb_array_elements($1) with ordinality e (x, ord)),
        c as materialized (
            select r.n, r.dot, m.dot as cur, m.id is not null as found, m.id,
                jsonb_populate_record(m, coalesce(m.extra, '{}') || r.v || jsonb_build_object('extra', (coalesce(m.extra, '{}') || r.cols) - $5)) as rec,
                case when m.dot = r.dot then 'duplicate'
                     when r.hlc >> 16 > extract(epoch from clock_timestamp()) * 1000 + 300000 then 'future'
                     when r.schema_ver < (select min_write from app.hub) then 'schema'
                     when m.id is null and r.prev_dot is not null then 'gone'
                     when m.dot is distinct from r.prev_dot then 'stale'
                     else 'applied' end as result
            from r left join public.%1$I m on m.user_id = $3 and m.id = r.id),
        i as (insert into public.%1$I (%2$s) select %3$s from c where c.result = 'applied' and not c.found),
        u as (update public.%1$I m set %4$s from c where m.user_id = $3 and m.id = c.id and c.result = 'applied' and c.found)
        select c.n, c.result, case when c.result in ('applied', 'duplicate') then c.dot else c.cur end from c $q$, p_table, all_cols, values_, sets);
end $$;

-- define_push creates the function that stores rows of one table, with the statement of push_sql as its
-- body. PostgreSQL keeps the plans of a function, which cost more than storing a few rows. Must be called
-- again after columns were added.
create function sync.define_push(p_table text) returns void
language plpgsql set search_path = '' as $$
begin
    execute format($f$create or replace function sync.%1$I(p_rows jsonb, p_first int, p_user uuid, p_device uuid) returns table (o_n int, o_result text, o_dot bigint)
        language plpgsql set search_path = '' as $body$
        #variable_conflict use_column
        begin
            return query %2$s;
        end $body$ $f$, 'push_' || p_table, replace(sync.push_sql(p_table), '$5', quote_literal(sync.columns_of(p_table)) || '::text[]'));
    execute format('revoke execute on function sync.%I(jsonb, int, uuid, uuid) from public', 'push_' || p_table);
    execute format('grant execute on function sync.%I(jsonb, int, uuid, uuid) to helix_device', 'push_' || p_table);
end $$;
revoke execute on function sync.define_push(text) from public;

create or replace function sync.push(p jsonb) returns table (n int, result text, dot bigint)
language plpgsql set search_path = '' as $$
declare
    t jsonb;
    k int := 0;
    me uuid := app.uid();
    dev uuid := app.device_id();
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    for t in select value from jsonb_array_elements(p -> 'tables') loop
        if not exists (select 1 from app.synced s where s.table_name = t ->> 't') then
            raise exception 'table % does not sync', t ->> 't' using errcode = '42P01';
        end if;
        return query execute format('select * from sync.%I($1, $2, $3, $4)', 'push_' || (t ->> 't')) using t -> 'rows', k, me, dev;
        k := k + jsonb_array_length(t -> 'rows');
    end loop;
end $$;

-- These find the current versions of rows through the primary key. The planner does not know how few
-- rows a push, a staging table or a page of the feed has, nor how many a user has, and would read the whole
-- table or compare each row with all rows of the user.
do $$
declare f text; s text;
begin
    foreach f in array array['sync.push(jsonb)', 'sync.merge(text)', 'sync.pull(bigint, int)'] loop
        foreach s in array array['enable_hashjoin', 'enable_mergejoin', 'enable_material'] loop
            execute format('alter function %s set %s = off', f, s);
        end loop;
    end loop;
end $$;
-- +goose StatementEnd
