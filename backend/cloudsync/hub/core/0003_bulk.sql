-- +goose Up
-- +goose StatementBegin
-- merge stores the rows of pg_temp.stage_<table>, which the caller has filled: id, dot, prev_dot, hlc,
-- sync_meta, schema_ver, deleted_at, extra and the columns that the caller has. It applies the same
-- checks as sync.push. Columns that the caller does not have keep their values.
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
           string_agg(case when attname = 'extra' then 'extra = (m.extra || c.extra) - $3' else format('%1$I = c.%1$I', attname) end, ', ' order by attnum)
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
        p_table, 'stage_' || p_table, cols, vals, sets) using me, app.device_id(), sync.columns_of(p_table);
end $$;
revoke execute on function sync.merge(text) from public;
grant execute on function sync.merge(text) to helix_device;
-- +goose StatementEnd

-- +goose StatementBegin
-- expect fails if the hub has more versions of the calling device than the device has packaged, because
-- then its data folder was copied or restored.
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

-- +goose StatementBegin
create table public.sync_presence (
    user_id   uuid not null references app.hub_user on delete cascade,
    device_id uuid not null,
    platform  text not null,
    state     text not null check (state in ('online', 'idle', 'offline')),
    last_seen timestamptz not null default now(),
    primary key (user_id, device_id)
);
create table public.sync_statistics (
    user_id      uuid not null references app.hub_user on delete cascade,
    device_id    uuid not null,
    day          date not null,
    pushed       bigint not null default 0,
    pulled       bigint not null default 0,
    merged       bigint not null default 0,
    conflicts    bigint not null default 0,
    dead_letters bigint not null default 0,
    bytes_up     bigint not null default 0,
    bytes_down   bigint not null default 0,
    primary key (user_id, device_id, day)
);
do $$
declare t regclass;
begin
    foreach t in array array['public.sync_presence', 'public.sync_statistics']::regclass[] loop
        execute format('alter table %s enable row level security', t);
        execute format('alter table %s force row level security', t);
        execute format('create policy owner_all on %s to helix_owner using (true) with check (true)', t);
        execute format('create policy own_select on %s for select to helix_device using (user_id = (select app.uid()))', t);
        execute format('grant select on %s to helix_device', t);
    end loop;
end $$;

-- heartbeat says that the calling device is there, and adds to its counts of today.
create function sync.heartbeat(p_platform text, p_state text, p_counts jsonb) returns void
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    c public.sync_statistics;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    insert into public.sync_presence (user_id, device_id, platform, state) values (me, dev, left(p_platform, 20), p_state)
        on conflict (user_id, device_id) do update set platform = excluded.platform, state = excluded.state, last_seen = now();
    c := jsonb_populate_record(null::public.sync_statistics, p_counts);
    insert into public.sync_statistics as s (user_id, device_id, day, pushed, pulled, merged, conflicts, dead_letters, bytes_up, bytes_down)
        values (me, dev, (now() at time zone 'utc')::date, coalesce(c.pushed, 0), coalesce(c.pulled, 0), coalesce(c.merged, 0), coalesce(c.conflicts, 0), coalesce(c.dead_letters, 0), coalesce(c.bytes_up, 0), coalesce(c.bytes_down, 0))
        on conflict (user_id, device_id, day) do update set pushed = s.pushed + excluded.pushed, pulled = s.pulled + excluded.pulled, merged = s.merged + excluded.merged,
            conflicts = s.conflicts + excluded.conflicts, dead_letters = s.dead_letters + excluded.dead_letters, bytes_up = s.bytes_up + excluded.bytes_up, bytes_down = s.bytes_down + excluded.bytes_down;
end $$;
revoke execute on function sync.heartbeat(text, text, jsonb) from public;
grant execute on function sync.heartbeat(text, text, jsonb) to helix_device;
-- +goose StatementEnd
