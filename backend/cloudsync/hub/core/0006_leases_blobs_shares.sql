-- +goose Up
-- +goose StatementBegin
-- The leases on schedules that any device of a user may run. Devices use them only through the
-- functions below, which compare times with the hub's clock alone.
create table public.schedule_leases (
    user_id     uuid not null references app.hub_user on delete cascade,
    schedule_id uuid not null,
    device_id   uuid not null,
    term        bigint not null,
    expires_at  timestamptz not null,
    through     timestamptz, -- every due time up to here was recorded
    primary key (user_id, schedule_id)
);

-- The due times that a device has accounted for. The primary key rejects a second run.
create table public.schedule_claims (
    user_id     uuid not null references app.hub_user on delete cascade,
    schedule_id uuid not null,
    due_at      timestamptz not null,
    attempt     int not null,
    run_id      uuid not null,
    device_id   uuid not null,
    term        bigint not null,
    primary key (user_id, schedule_id, due_at, attempt)
);

do $$
declare t regclass;
begin
    foreach t in array array['public.schedule_leases', 'public.schedule_claims']::regclass[] loop
        execute format('alter table %s enable row level security', t);
        execute format('alter table %s force row level security', t);
        execute format('create policy owner_all on %s to helix_owner using (true) with check (true)', t);
    end loop;
end $$;

create function sync.lease(l public.schedule_leases) returns jsonb language sql stable set search_path = '' as
$$ select jsonb_build_object('held', l.device_id = app.device_id() and l.expires_at > clock_timestamp(), 'holder', l.device_id, 'term', l.term,
    'ttl', (extract(epoch from l.expires_at - clock_timestamp()) * 1000000)::bigint, 'through', (extract(epoch from l.through) * 1000000)::bigint,
    'now', (extract(epoch from clock_timestamp()) * 1000000)::bigint) $$;

-- claim_schedule gives the calling device the lease on a schedule, or extends it. Another device's
-- lease must have expired a minute ago, unless p_force is set. Each change of holder, and each forced
-- claim, increments the term. It returns the lease, whoever holds it.
create function sync.claim_schedule(p_schedule uuid, p_force boolean default false) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    l public.schedule_leases;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    insert into public.schedule_leases as s (user_id, schedule_id, device_id, term, expires_at) values (me, p_schedule, dev, 1, clock_timestamp() + interval '10 minutes')
        on conflict (user_id, schedule_id) do update set device_id = dev, expires_at = excluded.expires_at, term = s.term + (s.device_id <> dev or p_force)::int
            where p_force or s.device_id = dev or s.expires_at + interval '1 minute' < clock_timestamp();
    select * into l from public.schedule_leases where user_id = me and schedule_id = p_schedule;
    return sync.lease(l);
end $$;

-- renew_schedule extends the lease of a term, if the calling device still holds it.
create function sync.renew_schedule(p_schedule uuid, p_term bigint) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    l public.schedule_leases;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    update public.schedule_leases set expires_at = clock_timestamp() + interval '10 minutes'
        where user_id = me and schedule_id = p_schedule and device_id = app.device_id() and term = p_term;
    select * into l from public.schedule_leases where user_id = me and schedule_id = p_schedule;
    return sync.lease(l);
end $$;

-- record_due records that a run of the calling device accounts for a due time, and p_last for the last
-- of several. It returns false if another run has it, or if p_term is not the term that the device
-- holds. Claims are kept for 90 days.
create function sync.record_due(p_schedule uuid, p_due timestamptz, p_attempt int, p_run uuid, p_term bigint, p_last timestamptz) returns boolean
language plpgsql security definer set search_path = '' as $$
declare
    me uuid := app.uid();
    dev uuid := app.device_id();
    l public.schedule_leases;
    run uuid;
begin
    if me is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    select * into l from public.schedule_leases where user_id = me and schedule_id = p_schedule for update;
    select run_id into run from public.schedule_claims where user_id = me and schedule_id = p_schedule and due_at = p_due and attempt = p_attempt;
    if run is not null then
        return run = p_run;
    end if;
    if l.device_id is distinct from dev or l.term <> p_term then
        return false;
    end if;
    insert into public.schedule_claims (user_id, schedule_id, due_at, attempt, run_id, device_id, term) values (me, p_schedule, p_due, p_attempt, p_run, dev, p_term);
    update public.schedule_leases set through = greatest(through, p_due, p_last) where user_id = me and schedule_id = p_schedule;
    delete from public.schedule_claims where user_id = me and schedule_id = p_schedule and due_at < now() - interval '90 days';
    return true;
end $$;

revoke execute on function sync.lease(public.schedule_leases), sync.claim_schedule(uuid, boolean), sync.renew_schedule(uuid, bigint), sync.record_due(uuid, timestamptz, int, uuid, bigint, timestamptz) from public;
grant execute on function sync.claim_schedule(uuid, boolean), sync.renew_schedule(uuid, bigint), sync.record_due(uuid, timestamptz, int, uuid, bigint, timestamptz) to helix_device;
-- +goose StatementEnd

-- +goose StatementBegin
-- Blobs are stored in chunks that the device encrypted. blob_id is a MAC of the content's hash, so the
-- hub cannot recognize a known file.
create table public.blobs (
    user_id      uuid not null references app.hub_user on delete cascade,
    blob_id      bytea not null check (octet_length(blob_id) = 32),
    size         bigint not null check (size between 0 and 104857600),
    chunk_size   int not null check (chunk_size between 65536 and 1048576),
    digests      bytea[] not null,
    complete     boolean not null default false,
    unused_since timestamptz default now(), -- null while rows refer to it
    primary key (user_id, blob_id)
);
create table public.blob_chunks (
    user_id uuid not null,
    blob_id bytea not null,
    n       int not null,
    data    bytea not null check (octet_length(data) <= 1048576 + 16),
    primary key (user_id, blob_id, n),
    foreign key (user_id, blob_id) references public.blobs on delete cascade
);
alter table public.blob_chunks alter column data set storage external; -- encrypted data does not compress

do $$
declare t regclass;
begin
    foreach t in array array['public.blobs', 'public.blob_chunks']::regclass[] loop
        execute format('alter table %s enable row level security', t);
        execute format('alter table %s force row level security', t);
        execute format('create policy owner_all on %s to helix_owner using (true) with check (true)', t);
        execute format('create policy own_select on %s for select to helix_device using (user_id = (select app.uid()))', t);
        execute format('create policy own_insert on %s for insert to helix_device with check (user_id = (select app.uid()))', t);
        execute format('grant select, insert on %s to helix_device', t);
    end loop;
end $$;
create policy own_update on public.blobs for update to helix_device using (user_id = (select app.uid()) and not complete) with check (user_id = (select app.uid()));
grant update (complete) on public.blobs to helix_device;

-- blob_begin announces a blob and returns the numbers of the chunks that the hub lacks. p_digests are
-- the SHA-256 of the encrypted chunks. An upload that was interrupted continues with its chunk size.
create function sync.blob_begin(p_id bytea, p_size bigint, p_chunk int, p_digests bytea[]) returns int[]
language plpgsql set search_path = '' as $$
declare b public.blobs;
begin
    insert into public.blobs (user_id, blob_id, size, chunk_size, digests) values (app.uid(), p_id, p_size, p_chunk, p_digests) on conflict do nothing;
    select * into b from public.blobs where user_id = app.uid() and blob_id = p_id;
    if b.complete then
        return '{}';
    end if;
    if b.size <> p_size or b.chunk_size <> p_chunk or b.digests <> p_digests then
        raise exception 'another upload of this blob has other chunks' using errcode = '22023';
    end if;
    return array(select n from generate_series(0, cardinality(b.digests) - 1) n
        where not exists (select 1 from public.blob_chunks c where c.user_id = b.user_id and c.blob_id = p_id and c.n = n.n) order by n);
end $$;

-- blob_put stores a chunk, whose digest must be the announced one. It returns whether the blob is
-- complete now.
create function sync.blob_put(p_id bytea, p_n int, p_data bytea) returns boolean
language plpgsql set search_path = '' as $$
declare b public.blobs;
begin
    select * into b from public.blobs where user_id = app.uid() and blob_id = p_id;
    if b.digests[p_n + 1] is distinct from sha256(p_data) then
        raise exception 'a chunk with another digest' using errcode = '22023';
    end if;
    insert into public.blob_chunks (user_id, blob_id, n, data) values (b.user_id, p_id, p_n, p_data) on conflict do nothing;
    if (select count(*) from public.blob_chunks where user_id = b.user_id and blob_id = p_id) = cardinality(b.digests) then
        update public.blobs set complete = true where user_id = b.user_id and blob_id = p_id and not complete;
        return true;
    end if;
    return false;
end $$;

-- blob_get returns a chunk of a complete blob; null if there is none.
create function sync.blob_get(p_id bytea, p_n int) returns bytea
language sql stable set search_path = '' as $$
    select c.data from public.blob_chunks c join public.blobs b using (user_id, blob_id) where c.user_id = app.uid() and c.blob_id = p_id and c.n = p_n and b.complete
$$;

-- blob_used says which of the user's blobs rows refer to. The others are removed when no device has
-- named them for 30 days. It returns the number of removed blobs.
create function sync.blob_used(p_ids bytea[]) returns int
language plpgsql security definer set search_path = '' as $$
declare me uuid := app.uid(); n int;
begin
    update public.blobs set unused_since = case when blob_id = any (p_ids) then null else coalesce(unused_since, now()) end
        where user_id = me and (unused_since is null) <> (blob_id = any (p_ids));
    delete from public.blobs where user_id = me and unused_since < now() - interval '30 days';
    get diagnostics n = row_count;
    return n;
end $$;

revoke execute on function sync.blob_begin(bytea, bigint, int, bytea[]), sync.blob_put(bytea, int, bytea), sync.blob_get(bytea, int), sync.blob_used(bytea[]) from public;
grant execute on function sync.blob_begin(bytea, bigint, int, bytea[]), sync.blob_put(bytea, int, bytea), sync.blob_get(bytea, int), sync.blob_used(bytea[]) to helix_device;
-- +goose StatementEnd

-- +goose StatementBegin
-- Tools that their owners share. They are not encrypted: whoever knows the random id, or for a public
-- share every user of this hub, may read body.
create table public.tool_shares (
    id         uuid primary key,
    user_id    uuid not null references app.hub_user on delete cascade,
    tool_id    uuid not null,
    public     boolean not null,
    summary    jsonb not null check (octet_length(summary::text) <= 65536),
    body       text not null check (octet_length(body) <= 5242880),
    created_at timestamptz not null default now(),
    expires_at timestamptz
);
alter table public.tool_shares enable row level security;
alter table public.tool_shares force row level security;
create policy owner_all on public.tool_shares to helix_owner using (true) with check (true);

-- end_shares removes the shares of deleted tools, even if the device that deleted the tool could not
-- say so. It is a trigger of custom_tools.
create function sync.end_shares() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
    delete from public.tool_shares s using new_rows n where s.user_id = n.user_id and s.tool_id = n.id and n.deleted_at is not null;
    return null;
end $$;

create view public.public_tools as
    select id, user_id <> app.uid() as others, summary, created_at from public.tool_shares where public and (expires_at is null or expires_at > now());
grant select on public.public_tools to helix_device;

create function sync.put_share(p_id uuid, p_tool uuid, p_public boolean, p_expires timestamptz, p_summary jsonb, p_body text) returns void
language plpgsql security definer set search_path = '' as $$
begin
    if app.uid() is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    insert into public.tool_shares (id, user_id, tool_id, public, expires_at, summary, body) values (p_id, app.uid(), p_tool, p_public, p_expires, p_summary, p_body)
        on conflict (id) do nothing;
end $$;

-- get_share returns a shared tool to whoever knows its id; null if it is not shared.
create function sync.get_share(p_id uuid) returns text
language sql stable security definer set search_path = '' as
$$ select body from public.tool_shares where id = p_id and (expires_at is null or expires_at > now()) and app.uid() is not null $$;

create function sync.revoke_share(p_id uuid) returns void
language sql security definer set search_path = '' as
$$ delete from public.tool_shares where id = p_id and user_id = app.uid() $$;

revoke execute on function sync.end_shares(), sync.put_share(uuid, uuid, boolean, timestamptz, jsonb, text), sync.get_share(uuid), sync.revoke_share(uuid) from public;
grant execute on function sync.put_share(uuid, uuid, boolean, timestamptz, jsonb, text), sync.get_share(uuid), sync.revoke_share(uuid) to helix_device;
-- +goose StatementEnd

-- +goose StatementBegin
-- skip_sites makes the hub assign only sites greater than p_site. A hub that was restored from a backup
-- would assign some a second time.
create function app.skip_sites(p_site int) returns void
language plpgsql security definer set search_path = '' as $$
begin
    if app.uid() is null then
        raise exception 'this device has no access' using errcode = 'HX001';
    end if;
    if p_site > (select last_value + 100000 from app.site_seq) then
        raise exception 'no such site' using errcode = '22023';
    end if;
    perform setval('app.site_seq', greatest(p_site, (select last_value from app.site_seq)));
end $$;
revoke execute on function app.skip_sites(int) from public;
grant execute on function app.skip_sites(int) to helix_device;
-- +goose StatementEnd
