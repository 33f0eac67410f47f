-- +goose Up
-- +goose StatementBegin
-- As before, but in PL/pgSQL, which keeps the plan for the connection. Functions in SQL are planned again in
-- each statement that calls them, and pushing one row calls these about fifteen times.
create or replace function app.uid() returns uuid language plpgsql stable security definer set search_path = '' as
$$ begin return (select user_id from app.device where role_name = session_user::text and revoked_at is null); end $$;
create or replace function app.site() returns int language plpgsql stable security definer set search_path = '' as
$$ begin return (select site from app.device where role_name = session_user::text and revoked_at is null); end $$;
create or replace function app.device_id() returns uuid language plpgsql stable security definer set search_path = '' as
$$ begin return (select device_id from app.device where role_name = session_user::text and revoked_at is null); end $$;

-- define_pull creates the function that returns the newest versions of the rows of one table that the feed
-- lists after p_after and up to p_to, for the same reason. p_device's own versions have no values.
create function sync.define_pull(p_table text) returns void
language plpgsql set search_path = '' as $$
begin
    execute format($f$create or replace function sync.%1$I(p_user uuid, p_device uuid, p_after bigint, p_to bigint)
        returns table (seq bigint, batch bigint, table_name text, row_id uuid, operation text, dot bigint, hlc bigint, device_id uuid, "row" jsonb)
        language plpgsql stable set search_path = '' as $body$
        #variable_conflict use_column
        begin
            return query
                select f.seq, f.batch, f.table_name, f.row_id, f.operation, m.dot, m.hlc, m.hub_device_id, case when m.hub_device_id is distinct from p_device then to_jsonb(m) - 'user_id' end
                from (select distinct on (l.row_id) l.* from public.sync_change_log l
                    where l.user_id = p_user and l.table_name = %3$L and l.seq > p_after and l.seq <= p_to order by l.row_id, l.seq desc) f
                join public.%2$I m on m.user_id = p_user and m.id = f.row_id;
        end $body$ $f$, 'pull_' || p_table, p_table, p_table);
    execute format('revoke execute on function sync.%I(uuid, uuid, bigint, bigint) from public', 'pull_' || p_table);
    execute format('grant execute on function sync.%I(uuid, uuid, bigint, bigint) to helix_device', 'pull_' || p_table);
end $$;
revoke execute on function sync.define_pull(text) from public;
select sync.define_pull(table_name) from app.synced; -- tables.sql does it for the tables of this version

-- As before, with the functions of define_pull. The planner expects more rows in a range of the feed whose ends
-- it does not know, and would plan again for each call.
create or replace function sync.pull(p_after bigint, p_max int default 2000)
returns table (seq bigint, batch bigint, table_name text, row_id uuid, operation text, dot bigint, hlc bigint, device_id uuid, "row" jsonb)
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan set enable_hashjoin = off set enable_mergejoin = off set enable_material = off as $$
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
        return query execute format('select * from sync.%I($1, $2, $3, $4)', 'pull_' || tab) using me, mine, p_after, hi;
    end loop;
    return query select hi, hi, null::text, null::uuid, null::text, null::bigint, null::bigint, null::uuid, null::jsonb;
end $$;
-- +goose StatementEnd
