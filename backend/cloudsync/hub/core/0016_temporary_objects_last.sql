-- +goose Up
-- +goose StatementBegin
-- An empty search_path still looks up types and relations in the session's temporary schema, before pg_catalog.
-- A device could create a type there of the name of one that a function uses, with a check that then ran with
-- the rights of the function's owner. Only a path that names pg_temp puts it last.
-- Each setup calls temporary_last after it has created functions.
create function app.temporary_last() returns void language plpgsql as $$
declare f regprocedure;
begin
    for f in select p.oid from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where p.proowner = current_user::regrole and n.nspname in ('app', 'sync', 'public') and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false) loop
        execute format('alter function %s set search_path = pg_catalog, pg_temp', f);
    end loop;
end $$;
revoke execute on function app.temporary_last() from public;
-- +goose StatementEnd

-- +goose StatementBegin
-- Without a barrier, a function in a query's condition may see rows that the view leaves out.
alter view public.public_tools set (security_barrier);
alter view public.public_skills set (security_barrier);

-- Sites and roles are the hub's, not one user's. These limits per user and day keep one from using them up.
alter table app.hub_user add column skipped int not null default 0, add column skipped_on date;

create or replace function app.skip_sites(p_site int) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    me uuid := app.uid();
    n int;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    perform 1 from app.hub_user where user_id = me for update;
    n := p_site - (select last_value from app.site_seq);
    if n <= 0 then
        return;
    end if;
    update app.hub_user set skipped = case skipped_on when current_date then skipped else 0 end + n, skipped_on = current_date
        where user_id = me and n <= 10000 - case skipped_on when current_date then skipped else 0 end;
    if not found then
        raise exception 'no such site' using errcode = '22023';
    end if;
    perform setval('app.site_seq', p_site);
end $$;

create or replace function app.invite_device(p_name text, p_platform text, p_wrapped bytea, p_ttl interval default '10 minutes') returns jsonb
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
    if (select count(*) from app.device where user_id = u and created_at > now() - interval '1 day') >= 1000 then
        raise exception 'too many devices in one day' using errcode = '53400';
    end if;
    d := app.add_device(u, gen_random_uuid(), p_name, p_platform, null, '', p_ttl);
    insert into app.enrolment (user_id, role_name, wrapped, expires_at) values (u, d ->> 'role', p_wrapped, now() + p_ttl) returning * into e;
    return d || jsonb_build_object('id', e.id, 'expiresAt', e.expires_at);
end $$;
-- +goose StatementEnd
