-- +goose Up
-- +goose StatementBegin
-- Where PostgREST serves the hub, such as on Supabase, a signed-in user can connect a first device without
-- knowing the database. The address is the one with which the hub was set up.
alter table app.hub add column host text, add column port int, add column dbname text;

-- enrol_device connects the first device of a signed-in user. Only PostgREST logs in as authenticator, after it has
-- verified the token whose claims it sets; for any other caller the claims mean nothing.
create function app.enrol_device(p_name text, p_platform text, p_pubkey bytea, p_version text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    claims jsonb := case when session_user = 'authenticator' then nullif(current_setting('request.jwt.claims', true), '')::jsonb end;
    who uuid := claims ->> 'sub';
    me uuid;
begin
    if who is null or claims ->> 'role' is distinct from 'authenticated' or coalesce((claims ->> 'is_anonymous')::boolean, false) then
        raise exception 'sign in first' using errcode = '42501';
    end if;
    insert into app.hub_user (user_id, auth_user) values (gen_random_uuid(), who) on conflict (auth_user) do nothing;
    select user_id into me from app.hub_user where auth_user = who for update;
    -- A further device needs the user's key, which only another device or the recovery code has.
    if exists (select 1 from app.device where user_id = me) then
        raise exception 'this user has devices' using errcode = 'HX004';
    end if;
    return app.add_device(me, gen_random_uuid(), p_name, p_platform, p_pubkey, left(p_version, 100), null)
        || (select jsonb_build_object('host', host, 'port', port, 'dbname', dbname, 'hubId', hub_id) from app.hub);
end $$;

create function public.helix_enrol(p jsonb) returns jsonb language sql security definer set search_path = '' as
$$ select app.enrol_device(p ->> 'name', p ->> 'platform', decode(p ->> 'pubkey', 'base64'), p ->> 'version') $$;

do $$
begin
    if exists (select 1 from pg_roles where rolname = 'authenticated') then
        grant execute on function public.helix_enrol(jsonb) to authenticated;
    end if;
end $$;
-- +goose StatementEnd
