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
