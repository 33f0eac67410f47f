-- +goose Up
-- +goose StatementBegin
-- A device's epoch changes with each greeting, so of two copies of one device only one knows the
-- current one. epoch_ctr is what the device had packaged when it got its epoch.
alter table public.sync_state add column epoch_ctr bigint not null default 0;

-- hello begins a connection: it says where the device stands and learns where the hub does. A device
-- that names neither the current epoch nor, when the last answer was lost, the one before is a copy of a
-- device that went on, or was restored: known is false. The epoch holds for this connection.
create or replace function sync.hello(p jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    named uuid := (p ->> 'epoch')::uuid;
    ctr bigint := (p ->> 'lastCtr')::bigint;
    st public.sync_state;
    h public.sync_head;
    hub app.hub;
    same boolean;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    insert into public.sync_state (user_id, device_id) values (me, dev) on conflict do nothing;
    select * into st from public.sync_state where user_id = me and device_id = dev for update;
    same := ctr >= st.last_ctr and (st.epoch is null or named = st.epoch or (named = st.prev_epoch and st.last_ctr = st.epoch_ctr));
    if same then
        update public.sync_state set prev_epoch = named, epoch = gen_random_uuid(), epoch_ctr = ctr, last_ctr = ctr, last_seen = now(), client_version = left(coalesce(p ->> 'appVersion', ''), 100)
            where user_id = me and device_id = dev returning * into st;
        perform set_config('helix.epoch', st.epoch::text, false);
    end if;
    select * into h from public.sync_head where user_id = me;
    select * into hub from app.hub;
    return jsonb_build_object('known', same, 'epoch', st.epoch, 'lastCtr', st.last_ctr::text, 'site', app.site(), 'head', h.seq::text, 'stable', h.stable::text, 'ackedSeq', st.acked_seq::text,
        'serverTime', (extract(epoch from clock_timestamp()) * 1000000)::bigint::text, 'minWrite', hub.min_write, 'minRead', hub.min_read, 'schemaVersion', hub.schema_ver,
        'hubId', hub.hub_id, 'channel', h.channel);
end $$;

-- lock makes the caller's pushes follow each other and begins a batch. It refuses a copy of a device
-- that is connected a second time.
create or replace function sync.lock() returns bigint
language plpgsql security definer set search_path = '' as $$
declare s bigint;
begin
    select seq into s from public.sync_head where user_id = app.uid() for update;
    if s is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    if exists (select 1 from public.sync_state where user_id = app.uid() and device_id = app.device_id() and epoch::text is distinct from current_setting('helix.epoch', true)) then
        raise exception 'a copy of this device is connected' using errcode = 'HX002';
    end if;
    perform set_config('sync.batch', (s + 1)::text, true);
    return s;
end $$;

-- push_sql is the statement that takes rows of one table: the version that a row names as its
-- predecessor must be the current one. Columns that this hub lacks are kept in extra, and leave it when the
-- hub has them.
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
            select $2 + e.ord::int as n, x ->> 'id' as id, (x ->> 'dot')::bigint as dot, (x ->> 'prevDot')::bigint as prev_dot, (x ->> 'hlc')::bigint as hlc,
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
            from r left join public.%1$I m on m.user_id = $3 and m.id = r.id::uuid),
        i as (insert into public.%1$I (%2$s) select %3$s from c where c.result = 'applied' and not c.found),
        u as (update public.%1$I m set %4$s from c where m.user_id = $3 and m.id = c.id and c.result = 'applied' and c.found)
        select c.n, c.result, case when c.result in ('applied', 'duplicate') then c.dot else c.cur end from c $q$, p_table, all_cols, values_, sets);
end $$;

-- prune removes rows whose deletion came more than 30 days ago, by the hub's clock, and that every
-- device knows of, and entries of the feed that newer ones of the same row have replaced.
create or replace function sync.prune(p_max int default 5000) returns int
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    st bigint;
    tab text;
    n int := 0;
    k int;
begin
    select stable into st from public.sync_head where user_id = me;
    for tab in select table_name from app.synced loop
        exit when n >= p_max;
        execute format($q$
            with old as (select m.id from public.%1$I m where m.user_id = $1 and m.deleted_at is not null
                and not exists (select 1 from public.sync_change_log l where l.user_id = $1 and l.table_name = $2 and l.row_id = m.id and (l.seq > $3 or l.created_at > now() - interval '30 days'))
                limit $4),
            entries as (delete from public.sync_change_log l using old where l.user_id = $1 and l.table_name = $2 and l.row_id = old.id)
            delete from public.%1$I m using old where m.user_id = $1 and m.id = old.id$q$, tab) using me, tab, st, p_max - n;
        get diagnostics k = row_count;
        n := n + k;
    end loop;
    delete from public.sync_change_log l where l.user_id = me and l.seq <= st
        and exists (select 1 from public.sync_change_log x where x.user_id = me and x.table_name = l.table_name and x.row_id = l.row_id and x.seq > l.seq and x.seq <= st);
    return n;
end $$;
-- +goose StatementEnd
