-- +goose Up
-- +goose StatementBegin
-- Where a firewall blocks the database, a device calls the functions at the end of this file through PostgREST.
-- The token of such a call proves the person, and a secret that only the device has proves the device.
alter table app.device add column https_digest bytea; -- SHA-256 of the secret; null: never through PostgREST

-- https_device returns the device that calls through PostgREST, which alone logs in as authenticator and has
-- verified the token whose claims it sets.
create function app.https_device() returns app.device language plpgsql stable security definer set search_path = '' as $$
declare
    claims jsonb := nullif(current_setting('request.jwt.claims', true), '')::jsonb;
    d app.device;
begin
    if session_user = 'authenticator' and claims ->> 'role' = 'authenticated' then
        select v.* into d from app.device v join app.hub_user u using (user_id)
            where v.device_id = nullif(current_setting('helix.device', true), '')::uuid and v.revoked_at is null
                and v.https_digest = sha256(convert_to(current_setting('helix.proof', true), 'utf8')) and u.auth_user = (claims ->> 'sub')::uuid;
    end if;
    return d;
end $$;
revoke execute on function app.https_device() from public;

-- As before, and for callers through PostgREST.
create or replace function app.uid() returns uuid language plpgsql stable security definer set search_path = '' as
$$ begin
    if session_user = 'authenticator' then return (app.https_device()).user_id; end if;
    return (select user_id from app.device where role_name = session_user::text and revoked_at is null);
end $$;
create or replace function app.site() returns int language plpgsql stable security definer set search_path = '' as
$$ begin
    if session_user = 'authenticator' then return (app.https_device()).site; end if;
    return (select site from app.device where role_name = session_user::text and revoked_at is null);
end $$;
create or replace function app.device_id() returns uuid language plpgsql stable security definer set search_path = '' as
$$ begin
    if session_user = 'authenticator' then return (app.https_device()).device_id; end if;
    return (select device_id from app.device where role_name = session_user::text and revoked_at is null);
end $$;

-- helix_enrol also stores the digest of the secret with which the device will call through PostgREST.
create or replace function public.helix_enrol(p jsonb) returns jsonb language plpgsql security definer set search_path = '' as $$
declare r jsonb := app.enrol_device(p ->> 'name', p ->> 'platform', decode(p ->> 'pubkey', 'base64'), p ->> 'version');
begin
    update app.device set https_digest = decode(p ->> 'digest', 'base64') where device_id = (r ->> 'deviceId')::uuid;
    return r || jsonb_build_object('https', p ? 'digest');
end $$;

-- set_https_digest replaces the secret of the calling device.
create function app.set_https_digest(p_digest bytea) returns void language plpgsql security definer set search_path = '' as $$
begin
    update app.device set https_digest = p_digest where role_name = session_user::text and revoked_at is null;
end $$;
revoke execute on function app.set_https_digest(bytea) from public;
grant execute on function app.set_https_digest(bytea) to helix_device;

-- https_call begins a call through PostgREST.
create function app.https_call(p jsonb) returns void language plpgsql set search_path = '' as $$
begin
    perform set_config('helix.device', p ->> 'device', true), set_config('helix.proof', coalesce(p ->> 'proof', ''), true), set_config('helix.epoch', coalesce(p ->> 'epoch', ''), true);
    if app.uid() is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
end $$;

create function public.sync_hello(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
declare r jsonb;
begin
    perform app.https_call(p);
    r := sync.hello(p -> 'hello');
    perform set_config('helix.epoch', '', false); -- the connection is not only this device's
    return r;
end $$;

create function public.sync_push(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
declare head bigint;
begin
    perform app.https_call(p);
    head := sync.lock();
    return jsonb_build_object('before', head::text,
        'answers', (select coalesce(jsonb_agg(jsonb_build_object('n', n, 'result', result, 'dot', coalesce(dot, 0)::text)), '[]') from sync.push(p -> 'rows')));
end $$;

create function public.sync_pull(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
begin
    perform app.https_call(p);
    return (select jsonb_agg(jsonb_build_object('seq', seq::text, 'table', coalesce(table_name, ''), 'id', row_id, 'dot', coalesce(dot, 0)::text, 'hlc', coalesce(hlc, 0)::text, 'row', "row") order by seq)
        from sync.pull((p ->> 'after')::bigint, (p ->> 'max')::int));
end $$;

create function public.sync_ack(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
begin
    perform app.https_call(p);
    return to_jsonb(sync.ack((p ->> 'seq')::bigint)::text);
end $$;

-- sync_row returns the current version of a row; null if there is none.
create function public.sync_row(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
declare r jsonb;
begin
    perform app.https_call(p);
    if not exists (select 1 from app.synced where table_name = p ->> 'table') then
        raise exception 'table % does not sync', p ->> 'table' using errcode = '42P01';
    end if;
    execute format('select jsonb_build_object(''dot'', m.dot::text, ''hlc'', m.hlc::text, ''row'', to_jsonb(m) - ''user_id'') from public.%I m where m.user_id = app.uid() and m.id = $1', p ->> 'table')
        into r using (p ->> 'id')::uuid;
    return r;
end $$;

create function public.sync_heartbeat(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
begin
    perform app.https_call(p);
    perform sync.heartbeat(p ->> 'platform', p ->> 'state', p -> 'counts');
    return 'true';
end $$;

do $$
begin
    if exists (select 1 from pg_roles where rolname = 'authenticated') then
        if not pg_has_role('authenticated', 'helix_device', 'member') then
            grant helix_device to authenticated;
        end if;
        grant execute on function public.sync_hello(jsonb), public.sync_push(jsonb), public.sync_pull(jsonb), public.sync_ack(jsonb), public.sync_row(jsonb), public.sync_heartbeat(jsonb) to authenticated;
    end if;
end $$;
grant execute on function app.https_call(jsonb) to helix_device;
-- +goose StatementEnd
