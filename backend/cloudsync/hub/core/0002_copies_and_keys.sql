-- +goose Up
-- +goose StatementBegin
-- A device gets a new epoch with each hello, so of two copies of a device only one knows the current
-- epoch. The device chooses its next epoch and stores it before the call. epoch_ctr is the number of
-- versions that the device had packaged when it got its epoch.
alter table public.sync_state add column epoch_ctr bigint not null default 0;

-- The keys that encrypt a user's rows. The hub stores them only in encrypted form: each version for
-- each device, with a public key that the device created, and all versions for the recovery code. A MAC
-- with the user's key proves that a public key belongs to a device and not to the hub; box_version is
-- the key version of that MAC.
alter table app.device add column box_key bytea, add column box_mac bytea, add column box_version int not null default 0;

create table app.user_key (
    user_id    uuid not null references app.hub_user,
    version    int not null check (version > 1), -- version 1 has no row: devices get it with their invitation
    made_by    uuid not null,
    created_at timestamptz not null default now(),
    primary key (user_id, version)
);

create table app.sealed_key (
    user_id   uuid not null references app.hub_user,
    version   int not null,
    device_id uuid not null,
    sealed    bytea not null,
    primary key (user_id, version, device_id)
);

-- The recovery code of each user: a role that may do nothing but register a device.
create table app.recovery (
    user_id    uuid primary key references app.hub_user,
    role_name  text not null unique,
    box_key    bytea not null,
    box_mac    bytea not null,
    wrapped    bytea not null,
    proven     int not null, -- the newest key version when the code was made; proof authenticates it
    proof      bytea not null,
    created_at timestamptz not null default now()
);

do $$
declare t regclass;
begin
    foreach t in array array['app.user_key', 'app.sealed_key', 'app.recovery', 'app.helix_migrations']::regclass[] loop
        execute format('alter table %s enable row level security', t);
        execute format('alter table %s force row level security', t);
        execute format('create policy owner_all on %s to helix_owner using (true) with check (true)', t);
    end loop;
    begin
        create role helix_recovery nologin;
    exception when duplicate_object or unique_violation then
        null; -- created for another database of this server
    end;
end $$;

create function app.key_version(p_user uuid) returns int language sql stable security definer set search_path = '' as
$$ select coalesce(max(version), 1) from app.user_key where user_id = p_user $$;

-- publish_box stores the public key with which keys are encrypted for the calling device.
create function app.publish_box(p_key bytea, p_mac bytea, p_version int) returns void
language plpgsql security definer set search_path = '' as $$
begin
    update app.device set box_key = p_key, box_mac = p_mac, box_version = p_version where role_name = session_user::text and revoked_at is null;
end $$;

-- keys returns what the calling device needs to receive keys and to send them to other devices.
create function app.keys() returns jsonb
language plpgsql stable security definer set search_path = '' as $$
declare me uuid := app.uid(); v int;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    v := app.key_version(me);
    return jsonb_build_object('version', v,
        'madeBy', (select made_by from app.user_key where user_id = me and version = v),
        'sealed', (select coalesce(jsonb_agg(jsonb_build_object('version', version, 'sealed', encode(sealed, 'base64')) order by version), '[]') from app.sealed_key where user_id = me and device_id = app.device_id()),
        'devices', (select coalesce(jsonb_agg(jsonb_build_object('id', d.device_id, 'key', encode(d.box_key, 'base64'), 'mac', encode(d.box_mac, 'base64'), 'version', d.box_version,
            'has', exists (select 1 from app.sealed_key k where k.user_id = me and k.version = v and k.device_id = d.device_id))), '[]')
            from app.device d where d.user_id = me and d.revoked_at is null and d.box_key is not null),
        'recovery', (select jsonb_build_object('key', encode(box_key, 'base64'), 'mac', encode(box_mac, 'base64'), 'version', v) from app.recovery where user_id = me));
end $$;

-- add_key stores an encrypted key for devices. p_version is either a new version, which must directly
-- follow the newest, or the newest version, for devices that lack it.
create function app.add_key(p_version int, p_sealed jsonb, p_recovery bytea, p_mac bytea) returns void
language plpgsql security definer set search_path = '' as $$
declare me uuid := app.uid(); v int;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    perform 1 from public.sync_head where user_id = me for update;
    v := app.key_version(me);
    if p_version = v + 1 then
        insert into app.user_key (user_id, version, made_by) values (me, p_version, app.device_id());
    elsif p_version <> v or v = 1 then
        raise exception 'another device has changed the key' using errcode = 'HX003';
    end if;
    insert into app.sealed_key (user_id, version, device_id, sealed)
        select me, p_version, d.device_id, decode(e.value, 'base64') from jsonb_each_text(p_sealed) e join app.device d on d.device_id = e.key::uuid and d.user_id = me and d.revoked_at is null
        on conflict do nothing;
    if p_recovery is not null then
        update app.recovery set wrapped = p_recovery, box_mac = p_mac where user_id = me;
    end if;
end $$;

-- set_recovery stores a recovery code and removes the previous one. p_verifier is the SCRAM verifier of
-- the password.
create function app.set_recovery(p_role text, p_verifier text, p_key bytea, p_mac bytea, p_wrapped bytea, p_proven int, p_proof bytea) returns void
language plpgsql security definer set search_path = '' as $$
declare me uuid := app.uid(); former text;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    if p_role !~ '^r_[0-9a-f]{12}$' or p_verifier !~ '^SCRAM-SHA-256\$' then
        raise exception 'not a recovery role' using errcode = '22023';
    end if;
    delete from app.recovery where user_id = me returning role_name into former;
    if former is not null then
        execute format('drop role if exists %I', former);
    end if;
    execute format('create role %I login password %L in role helix_recovery', p_role, p_verifier);
    insert into app.recovery (user_id, role_name, box_key, box_mac, wrapped, proven, proof) values (me, p_role, p_key, p_mac, p_wrapped, p_proven, p_proof);
end $$;

-- redeem_recovery registers a device for a caller who logged in with a recovery code.
create function app.redeem_recovery(p_name text, p_platform text, p_pubkey bytea, p_version text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare r app.recovery;
begin
    select * into r from app.recovery where role_name = session_user::text;
    if r.user_id is null then
        raise exception 'this code has no access' using errcode = 'HX001';
    end if;
    return app.add_device(r.user_id, gen_random_uuid(), p_name, p_platform, p_pubkey, p_version, null)
        || jsonb_build_object('wrapped', encode(r.wrapped, 'base64'), 'proven', r.proven, 'proof', encode(r.proof, 'base64'), 'keyVersion', app.key_version(r.user_id), 'hubId', (select hub_id from app.hub));
end $$;

-- remove_user removes a user with all their rows. Devices may not call it.
create or replace function app.remove_user(p_user uuid) returns void
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
    delete from app.sealed_key where user_id = p_user;
    delete from app.user_key where user_id = p_user;
    for tab in delete from app.recovery where user_id = p_user returning role_name loop
        execute format('drop role if exists %I', tab);
    end loop;
    delete from app.enrolment where user_id = p_user;
    delete from app.device where user_id = p_user;
    delete from app.hub_user where user_id = p_user;
end $$;

revoke execute on function app.key_version(uuid), app.publish_box(bytea, bytea, int), app.keys(), app.add_key(int, jsonb, bytea, bytea), app.set_recovery(text, text, bytea, bytea, bytea, int, bytea), app.redeem_recovery(text, text, bytea, text) from public;
grant execute on function app.publish_box(bytea, bytea, int), app.keys(), app.add_key(int, jsonb, bytea, bytea), app.set_recovery(text, text, bytea, bytea, bytea, int, bytea) to helix_device;
grant usage on schema app to helix_recovery;
grant execute on function app.redeem_recovery(text, text, bytea, text) to helix_recovery;

-- hello begins a connection. It reports the counters of the device and returns the state of the hub. The
-- device must name its current epoch, or repeat its last call if the answer was lost. Otherwise it is a
-- copy of a device in use or a restored backup, and known is false. The epoch is valid for this
-- connection.
create or replace function sync.hello(p jsonb) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    named uuid := (p ->> 'epoch')::uuid;
    next uuid := coalesce((p ->> 'nextEpoch')::uuid, gen_random_uuid());
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
    same := ctr >= st.last_ctr and (st.epoch is null or named = st.epoch or (next = st.epoch and st.last_ctr = st.epoch_ctr));
    if same then
        update public.sync_state set prev_epoch = named, epoch = next, epoch_ctr = ctr, last_ctr = ctr, last_seen = now(), client_version = left(coalesce(p ->> 'appVersion', ''), 100)
            where user_id = me and device_id = dev returning * into st;
        perform set_config('helix.epoch', st.epoch::text, false);
    end if;
    select * into h from public.sync_head where user_id = me;
    select * into hub from app.hub;
    return jsonb_build_object('known', same, 'epoch', st.epoch, 'lastCtr', st.last_ctr::text, 'site', app.site(), 'head', h.seq::text, 'stable', h.stable::text, 'ackedSeq', st.acked_seq::text,
        'serverTime', (extract(epoch from clock_timestamp()) * 1000000)::bigint::text, 'minWrite', hub.min_write, 'minRead', hub.min_read, 'schemaVersion', hub.schema_ver,
        'hubId', hub.hub_id, 'channel', h.channel, 'keyVersion', app.key_version(me), 'boxVersion', (select box_version from app.device where device_id = dev),
        'keyWanted', exists (select 1 from app.device d where d.user_id = me and d.revoked_at is null and d.box_key is not null and app.key_version(me) > 1
            and not exists (select 1 from app.sealed_key k where k.user_id = me and k.version = app.key_version(me) and k.device_id = d.device_id)));
end $$;

-- lock serializes the pushes of a user, begins a batch and returns the head of the feed. It fails if a
-- newer connection of the same device, such as a copy's, has taken over.
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

-- push_sql returns the statement that stores rows of one table. The version that a row names as its
-- predecessor must be the current one. Columns that this hub lacks are kept in extra until the hub has
-- them.
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

-- prune removes rows whose deletion reached the hub more than 30 days ago, by the hub's clock, and is
-- known to every device. It also removes entries of the feed that were superseded by newer entries of
-- the same row.
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
