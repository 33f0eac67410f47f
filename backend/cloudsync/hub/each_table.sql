-- Row-level security, rights, triggers and functions of each synced table. It runs after tables.sql.
do $$
declare
    t text;
    pol text;
    role_name text;
    verb text;
    rest text;
    own text := '(user_id = (select app.uid()))';
    owned text := '(user_id = coalesce((select app.uid()), (select app.removing())))';
begin
    for t, pol in select table_name, policy from app.synced loop
        execute format('alter table public.%1$I enable row level security; alter table public.%1$I force row level security', t);
        for role_name, verb, rest in values
            ('helix_device', 'select', 'using ' || own), ('helix_device', 'insert', 'with check ' || own), ('helix_device', 'update', 'using ' || own || ' with check ' || own),
            ('helix_owner', 'select', 'using ' || owned), ('helix_owner', 'delete', 'using ' || owned)
        loop
            execute format('drop policy if exists %1$I on public.%2$I; create policy %1$I on public.%2$I for %3$s to %4$I %5$s',
                case role_name when 'helix_device' then verb || '_own' else 'owner_' || verb end, t, verb, role_name, rest);
        end loop;
        execute format('grant select, insert on public.%1$I to helix_device; grant update %2$s on public.%1$I to helix_device', t,
            case pol when 'append' then '(' || array_to_string(sync.tombstone_columns(), ', ') || ')' end); -- an appended row can only be deleted
        execute format('create or replace trigger record_insert after insert on public.%1$I referencing new table as new_rows for each statement execute function sync.record_insert();
            create or replace trigger record_update after update on public.%1$I referencing old table as old_rows new table as new_rows for each statement execute function sync.record_update()', t);
        if t in ('custom_tools', 'composite_skills') then
            execute format('create or replace trigger end_shares after update on public.%I referencing new table as new_rows for each statement execute function sync.end_shares()', t);
        end if;
        perform sync.define_push(t), sync.define_pull(t);
    end loop;
end $$;
