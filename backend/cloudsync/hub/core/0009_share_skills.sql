-- +goose Up
-- +goose StatementBegin
-- Skills are shared like tools.
alter table public.tool_shares rename to shares;
alter table public.shares rename column tool_id to item_id;
alter table public.shares add column kind text not null default 'tool' check (kind in ('tool', 'skill'));
create index shares_item on public.shares (user_id, item_id);

create or replace function sync.end_shares() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
    delete from public.shares s using new_rows n where s.user_id = n.user_id and s.item_id = n.id and n.deleted_at is not null;
    return null;
end $$;

create or replace view public.public_tools as
    select id, user_id <> app.uid() as others, summary, created_at from public.shares where public and (expires_at is null or expires_at > now()) and kind = 'tool';
create view public.public_skills as
    select id, user_id <> app.uid() as others, summary, created_at from public.shares where public and (expires_at is null or expires_at > now()) and kind = 'skill';
grant select on public.public_skills to helix_device;

-- The defaults are for devices that share only tools.
drop function sync.put_share(uuid, uuid, boolean, timestamptz, jsonb, text);
create function sync.put_share(p_id uuid, p_item uuid, p_public boolean, p_expires timestamptz, p_summary jsonb, p_body text, p_kind text default 'tool') returns void
language plpgsql security definer set search_path = '' as $$
begin
    if app.uid() is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    insert into public.shares (id, user_id, item_id, public, expires_at, summary, body, kind) values (p_id, app.uid(), p_item, p_public, p_expires, p_summary, p_body, p_kind)
        on conflict (id) do nothing;
end $$;

drop function sync.get_share(uuid);
create function sync.get_share(p_id uuid, p_kind text default 'tool') returns text
language sql stable security definer set search_path = '' as
$$ select body from public.shares where id = p_id and kind = p_kind and (expires_at is null or expires_at > now()) and app.uid() is not null $$;

create or replace function sync.revoke_share(p_id uuid) returns void
language sql security definer set search_path = '' as
$$ delete from public.shares where id = p_id and user_id = app.uid() $$;

-- own_shares returns the caller's shares of a kind that have not ended, of one item or of all.
create function sync.own_shares(p_kind text, p_item uuid) returns table (id uuid, item_id uuid, public boolean, summary jsonb, created_at timestamptz, expires_at timestamptz)
language sql stable security definer set search_path = '' as
$$ select id, item_id, public, summary, created_at, expires_at from public.shares
    where user_id = app.uid() and kind = p_kind and (p_item is null or item_id = p_item) and (expires_at is null or expires_at > now()) order by created_at desc, id limit 1000 $$;

revoke execute on function sync.put_share(uuid, uuid, boolean, timestamptz, jsonb, text, text), sync.get_share(uuid, text), sync.own_shares(text, uuid) from public;
grant execute on function sync.put_share(uuid, uuid, boolean, timestamptz, jsonb, text, text), sync.get_share(uuid, text), sync.own_shares(text, uuid) to helix_device;
-- +goose StatementEnd
