-- +goose Up
-- +goose StatementBegin
-- Runs as helix_owner, which owns everything here. It is not a superuser and cannot bypass row-level
-- security. Nobody may execute a function until it is granted.
alter default privileges in schema app revoke execute on functions from public;
alter default privileges in schema sync revoke execute on functions from public;
alter default privileges revoke execute on functions from public;

create table app.hub (
    one        boolean primary key default true check (one),
    hub_id     uuid not null default gen_random_uuid(),
    schema_ver int not null default 1,
    min_write  int not null default 1,
    min_read   int not null default 1
);
insert into app.hub default values;

create table app.hub_user (
    user_id    uuid primary key,
    auth_user  uuid unique,
    created_at timestamptz not null default now()
);

-- Sites are never reused, so that a dot always identifies the same version.
create sequence app.site_seq maxvalue 4194303;

create table app.device (
    device_id      uuid primary key,
    user_id        uuid not null references app.hub_user,
    site           int not null unique default nextval('app.site_seq'),
    role_name      text not null unique,
    pubkey         bytea,
    name           text not null,
    platform       text not null check (platform in ('web', 'desktop', 'ios', 'android', 'cli')),
    client_version text not null default '',
    created_at     timestamptz not null default now(),
    revoked_at     timestamptz,
    revoked_by     uuid
);

create table app.enrolment (
    id         uuid primary key default gen_random_uuid(),
    user_id    uuid not null references app.hub_user,
    role_name  text not null,
    wrapped    bytea not null,
    expires_at timestamptz not null,
    used_at    timestamptz,
    tries      int not null default 0 check (tries <= 5)
);

-- The list of synced tables, filled by tables.sql.
create table app.synced (
    table_name text primary key,
    policy     text not null check (policy in ('merge', 'append'))
);

create table public.sync_head (
    user_id uuid primary key references app.hub_user,
    seq     bigint not null default 0,
    stable  bigint not null default 0,
    channel text not null default 'helix_' || replace(gen_random_uuid()::text, '-', '')
);

create table public.sync_change_log (
    user_id    uuid not null references app.hub_user,
    seq        bigint not null,
    batch      bigint not null,
    table_name text not null,
    row_id     uuid not null,
    operation  text not null check (operation in ('INSERT', 'UPDATE', 'DELETE')),
    dot        bigint not null,
    hlc        bigint not null,
    device_id  uuid not null,
    created_at timestamptz not null default now(),
    primary key (user_id, seq)
);
create index sync_change_log_row on public.sync_change_log (user_id, table_name, row_id, seq);

create table public.sync_state (
    user_id        uuid not null references app.hub_user,
    device_id      uuid not null,
    epoch          uuid,
    prev_epoch     uuid,
    last_ctr       bigint not null default 0,
    acked_seq      bigint not null default 0,
    last_seen      timestamptz not null default now(),
    client_version text not null default '',
    primary key (user_id, device_id)
);

-- The caller is the role that logged in. SET ROLE and claims in settings have no effect on it.
create function app.uid() returns uuid language sql stable security definer set search_path = '' as
$$ select user_id from app.device where role_name = session_user::text and revoked_at is null $$;
create function app.site() returns int language sql stable security definer set search_path = '' as
$$ select site from app.device where role_name = session_user::text and revoked_at is null $$;
create function app.device_id() returns uuid language sql stable security definer set search_path = '' as
$$ select device_id from app.device where role_name = session_user::text and revoked_at is null $$;

-- The user that is being removed. Outside calls of a device, helix_owner sees only this user's rows.
create function app.removing() returns uuid language sql stable set search_path = '' as
$$ select nullif(current_setting('helix.removing', true), '')::uuid $$;

-- Row-level security of the other tables. Devices may only read them; functions of helix_owner write.
do $$
declare t regclass;
begin
    foreach t in array array['app.hub', 'app.hub_user', 'app.device', 'app.enrolment', 'app.synced', 'public.sync_head', 'public.sync_change_log', 'public.sync_state']::regclass[] loop
        execute format('alter table %s enable row level security', t);
        execute format('alter table %s force row level security', t);
        execute format('create policy owner_all on %s to helix_owner using (true) with check (true)', t);
    end loop;
    foreach t in array array['app.device', 'public.sync_head', 'public.sync_change_log', 'public.sync_state']::regclass[] loop
        execute format('create policy own_select on %s for select to helix_device using (user_id = (select app.uid()))', t);
        execute format('grant select on %s to helix_device', t);
    end loop;
    foreach t in array array['app.hub', 'app.synced']::regclass[] loop
        execute format('create policy read_all on %s for select to helix_device using ((select app.uid()) is not null)', t);
        execute format('grant select on %s to helix_device', t);
    end loop;
end $$;
revoke select (pubkey, role_name) on app.device from helix_device;

-- add_device creates a device of a user, with its own login role. It returns the password for the
-- device; only a hash of it is stored.
create function app.add_device(p_user uuid, p_device uuid, p_name text, p_platform text, p_pubkey bytea, p_version text, p_valid interval) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    r text := 'd_' || left(replace(gen_random_uuid()::text, '-', ''), 12);
    pw text := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
    d app.device;
    ch text;
begin
    insert into app.hub_user (user_id) values (p_user) on conflict do nothing;
    insert into public.sync_head (user_id) values (p_user) on conflict do nothing;
    insert into app.device (device_id, user_id, role_name, pubkey, name, platform, client_version)
        values (p_device, p_user, r, p_pubkey, left(p_name, 100), p_platform, p_version) returning * into d;
    execute format('create role %I login password %L in role helix_device', r, pw);
    if p_valid is not null then
        execute format('alter role %I valid until %L', r, now() + p_valid);
    end if;
    select channel into ch from public.sync_head where user_id = p_user;
    return jsonb_build_object('userId', d.user_id, 'deviceId', d.device_id, 'site', d.site, 'role', r, 'password', pw, 'channel', ch);
end $$;

-- invite_device creates a role for a new device. The role cannot log in after p_ttl unless
-- redeem_invite was called.
create function app.invite_device(p_name text, p_platform text, p_wrapped bytea, p_ttl interval default '10 minutes') returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    u uuid := app.uid();
    d jsonb;
    e app.enrolment;
begin
    if u is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    if p_ttl > interval '1 hour' then
        raise exception 'an invitation lasts an hour at most' using errcode = '22023';
    end if;
    d := app.add_device(u, gen_random_uuid(), p_name, p_platform, null, '', p_ttl);
    insert into app.enrolment (user_id, role_name, wrapped, expires_at) values (u, d ->> 'role', p_wrapped, now() + p_ttl) returning * into e;
    return d || jsonb_build_object('id', e.id, 'expiresAt', e.expires_at);
end $$;

-- redeem_invite returns the encrypted key to the invited device. It works once; otherwise it returns
-- null.
create function app.redeem_invite(p_id uuid) returns bytea
language plpgsql security definer set search_path = '' as $$
declare e app.enrolment;
begin
    update app.enrolment set used_at = now() where id = p_id and role_name = session_user::text and used_at is null and expires_at > now() and tries < 5 returning * into e;
    if e.id is null then
        update app.enrolment set tries = tries + 1 where role_name = session_user::text and tries < 5;
        return null;
    end if;
    execute format('alter role %I valid until ''infinity''', session_user);
    return e.wrapped;
end $$;

-- describe_device stores the description of the calling device, which was invited.
create function app.describe_device(p_name text, p_platform text, p_pubkey bytea, p_version text) returns void
language plpgsql security definer set search_path = '' as $$
begin
    update app.device set name = left(p_name, 100), platform = p_platform, pubkey = coalesce(pubkey, p_pubkey), client_version = left(p_version, 100)
        where role_name = session_user::text and revoked_at is null;
end $$;

-- revoke_device ends a device's access. It takes effect on open connections immediately, because
-- app.uid() now returns null for the device.
create function app.revoke_device(p_device uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare r text;
begin
    update app.device set revoked_at = now(), revoked_by = app.device_id() where device_id = p_device and user_id = app.uid() and revoked_at is null returning role_name into r;
    if r is null then
        raise exception 'no such device' using errcode = 'P0002';
    end if;
    execute format('alter role %I nologin password null', r);
    perform public.sync_terminate(r);
end $$;

-- Terminating connections requires a privilege that not every administrator can grant. Without it
-- the connections stay open, but see no rows.
create function public.sync_terminate(p_role text) returns void language plpgsql set search_path = '' as $$
begin
    perform pg_terminate_backend(pid) from pg_stat_activity where usename = p_role;
exception when insufficient_privilege then
    null;
end $$;

-- lock serializes the pushes of a user and begins a batch. It returns the head of the feed.
create function sync.lock() returns bigint
language plpgsql security definer set search_path = '' as $$
declare s bigint;
begin
    select seq into s from public.sync_head where user_id = app.uid() for update;
    if s is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    perform set_config('sync.batch', (s + 1)::text, true);
    return s;
end $$;

-- take reserves positions in the feed for n rows, of which p_dot is the newest version. base is the
-- position before the first.
create function sync.take(p_n bigint, p_dot bigint, out base bigint, out batch bigint)
language plpgsql security definer set search_path = '' as $$
declare ch text;
begin
    update public.sync_head set seq = seq + p_n where user_id = app.uid() returning seq - p_n, channel into base, ch;
    if base is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    batch := coalesce(nullif(current_setting('sync.batch', true), '')::bigint, base + 1);
    update public.sync_state set last_ctr = greatest(last_ctr, p_dot & ((1::bigint << 40) - 1)) where user_id = app.uid() and device_id = app.device_id();
    perform pg_notify(ch, (base + p_n)::text);
end $$;

-- The triggers of every synced table. They also bind a client that writes to the tables directly: each
-- version must be written by the calling device, and must follow the version that it names.
create function sync.record_insert() returns trigger
language plpgsql security definer set search_path = '' as $$
declare v_n bigint; v_dot bigint; v_base bigint; v_batch bigint;
begin
    select count(*), max(dot) into v_n, v_dot from new_rows;
    if v_n = 0 then return null; end if;
    if exists (select 1 from new_rows where dot >> 40 is distinct from app.site() or hub_device_id is distinct from app.device_id() or user_id is distinct from app.uid()) then
        raise exception 'a version of another device' using errcode = '42501';
    end if;
    select t.base, t.batch into v_base, v_batch from sync.take(v_n, v_dot) t;
    insert into public.sync_change_log (user_id, seq, batch, table_name, row_id, operation, dot, hlc, device_id)
        select user_id, v_base + row_number() over (), v_batch, tg_table_name, id, case when deleted_at is null then 'INSERT' else 'DELETE' end, dot, hlc, hub_device_id from new_rows;
    return null;
end $$;

create function sync.record_update() returns trigger
language plpgsql security definer set search_path = '' as $$
declare v_n bigint; v_dot bigint; v_base bigint; v_batch bigint;
begin
    select count(*), max(dot) into v_n, v_dot from new_rows;
    if v_n = 0 then return null; end if;
    if exists (select 1 from new_rows where dot >> 40 is distinct from app.site() or hub_device_id is distinct from app.device_id() or user_id is distinct from app.uid()) then
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

-- push_sql returns the statement that stores rows of one table. The version that a row names as its
-- predecessor must be the current one. Columns that this hub lacks are kept in extra.
create function sync.push_sql(p_table text) returns text
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
            select r.n, r.dot, m.dot as cur, m.id is not null as found, m.id, jsonb_populate_record(m, r.v || jsonb_build_object('extra', coalesce(m.extra, '{}') || (r.cols - $5))) as rec,
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

create function sync.tombstone_columns() returns text[] language sql immutable as
$$ select array['dot', 'prev_dot', 'hlc', 'sync_meta', 'hub_device_id', 'schema_ver', 'deleted_at', 'updated_at', 'extra'] $$;

create function sync.columns_of(p_table text) returns text[] language sql stable set search_path = '' as
$$ select array_agg(attname::text) from pg_catalog.pg_attribute where attrelid = format('public.%I', p_table)::regclass and attnum > 0 and not attisdropped $$;

-- push stores at most 200 rows. It returns a result for each, in order: applied, duplicate, stale, gone,
-- future or schema.
create function sync.push(p jsonb) returns table (n int, result text, dot bigint)
language plpgsql set search_path = '' as $$
declare
    t jsonb;
    k int := 0;
    me uuid := app.uid();
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    for t in select value from jsonb_array_elements(p -> 'tables') loop
        return query execute sync.push_sql(t ->> 't') using t -> 'rows', k, me, app.device_id(), sync.columns_of(t ->> 't');
        k := k + jsonb_array_length(t -> 'rows');
    end loop;
end $$;

-- pull returns the entries of the feed after p_after, in complete batches, with each row once in its
-- newest version. The values are omitted if the calling device wrote that version. The last row has no
-- table; its seq is the p_after of the next call.
create function sync.pull(p_after bigint, p_max int default 2000)
returns table (seq bigint, batch bigint, table_name text, row_id uuid, operation text, dot bigint, hlc bigint, device_id uuid, "row" jsonb)
language plpgsql stable set search_path = '' as $$
#variable_conflict use_column
declare
    me uuid := app.uid();
    mine uuid := app.device_id();
    hi bigint;
    tab text;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    select l.batch into hi from public.sync_change_log l where l.user_id = me and l.seq > p_after order by l.seq offset least(p_max, 10000) - 1 limit 1;
    if hi is null then
        select h.seq into hi from public.sync_head h where h.user_id = me;
    else
        select max(l.seq) into hi from public.sync_change_log l where l.user_id = me and l.batch = hi and l.seq > p_after;
    end if;
    for tab in select distinct l.table_name from public.sync_change_log l where l.user_id = me and l.seq > p_after and l.seq <= hi loop
        return query execute format($q$
            select f.seq, f.batch, f.table_name, f.row_id, f.operation, m.dot, m.hlc, m.hub_device_id, case when m.hub_device_id is distinct from $5 then to_jsonb(m) - 'user_id' end
            from (select distinct on (l.row_id) l.* from public.sync_change_log l where l.user_id = $1 and l.table_name = $2 and l.seq > $3 and l.seq <= $4 order by l.row_id, l.seq desc) f
            join public.%I m on m.user_id = $1 and m.id = f.row_id$q$, tab) using me, tab, p_after, hi, mine;
    end loop;
    return query select hi, hi, null::text, null::uuid, null::text, null::bigint, null::bigint, null::uuid, null::jsonb;
end $$;

-- hello begins a connection. It reports the counters of the device and returns the state of the hub.
create function sync.hello(p jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    st public.sync_state;
    h public.sync_head;
    hub app.hub;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    insert into public.sync_state (user_id, device_id, epoch) values (me, dev, (p ->> 'epoch')::uuid) on conflict do nothing;
    update public.sync_state set last_seen = now(), client_version = left(coalesce(p ->> 'appVersion', ''), 100), last_ctr = greatest(last_ctr, (p ->> 'lastCtr')::bigint)
        where user_id = me and device_id = dev returning * into st;
    select * into h from public.sync_head where user_id = me;
    select * into hub from app.hub;
    return jsonb_build_object('epoch', st.epoch, 'lastCtr', st.last_ctr::text, 'site', app.site(), 'head', h.seq::text, 'stable', h.stable::text, 'ackedSeq', st.acked_seq::text,
        'serverTime', (extract(epoch from clock_timestamp()) * 1000000)::bigint::text, 'minWrite', hub.min_write, 'minRead', hub.min_read, 'schemaVersion', hub.schema_ver,
        'hubId', hub.hub_id, 'channel', h.channel);
end $$;

-- ack reports the position up to which the device has stored the feed. It returns stable, the position
-- that all devices seen within the last 90 days have reached.
create function sync.ack(p_seq bigint) returns bigint
language plpgsql security definer set search_path = '' as $$
declare me uuid := app.uid(); s bigint;
begin
    update public.sync_state set acked_seq = greatest(acked_seq, p_seq), last_seen = now() where user_id = me and device_id = app.device_id();
    select min(t.acked_seq) into s from public.sync_state t join app.device d using (device_id)
        where t.user_id = me and d.revoked_at is null and t.last_seen > now() - interval '90 days';
    update public.sync_head set stable = greatest(stable, coalesce(s, 0)) where user_id = me returning stable into s;
    return s;
end $$;

-- prune removes rows whose deletion is more than 30 days old and known to every device, and entries of
-- the feed that were superseded by newer entries of the same row.
create function sync.prune(p_max int default 5000) returns int
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
        execute format($q$
            with old as (select m.id from public.%I m where m.user_id = $1 and m.deleted_at < now() - interval '30 days'
                and not exists (select 1 from public.sync_change_log l where l.user_id = $1 and l.table_name = $2 and l.row_id = m.id and l.seq > $3) limit $4),
            gone as (delete from public.%1$I m using old where m.user_id = $1 and m.id = old.id returning m.id)
            delete from public.sync_change_log l using gone where l.user_id = $1 and l.table_name = $2 and l.row_id = gone.id$q$, tab) using me, tab, st, p_max - n;
        get diagnostics k = row_count;
        n := n + k;
    end loop;
    delete from public.sync_change_log l where l.user_id = me and l.seq <= st
        and exists (select 1 from public.sync_change_log x where x.user_id = me and x.table_name = l.table_name and x.row_id = l.row_id and x.seq > l.seq);
    return n;
end $$;

-- remove_user removes a user with all their rows. Devices may not call it.
create function app.remove_user(p_user uuid) returns void
language plpgsql set search_path = '' as $$
declare tab text;
begin
    perform set_config('helix.removing', p_user::text, true);
    for tab in select table_name from app.synced loop
        execute format('delete from public.%I where user_id = $1', tab) using p_user;
    end loop;
    delete from public.sync_change_log where user_id = p_user;
    delete from public.sync_state where user_id = p_user;
    delete from public.sync_head where user_id = p_user;
    delete from app.enrolment where user_id = p_user;
    delete from app.device where user_id = p_user;
    delete from app.hub_user where user_id = p_user;
end $$;

revoke execute on all functions in schema app, sync from public;
revoke execute on function public.sync_terminate(text) from public;
grant usage on schema app, sync, public to helix_device;
grant execute on function app.uid(), app.site(), app.device_id(), app.invite_device(text, text, bytea, interval), app.redeem_invite(uuid), app.describe_device(text, text, bytea, text),
    app.revoke_device(uuid), sync.lock(), sync.push_sql(text), sync.tombstone_columns(), sync.columns_of(text), sync.push(jsonb), sync.pull(bigint, int), sync.hello(jsonb), sync.ack(bigint), sync.prune(int) to helix_device;
-- +goose StatementEnd
