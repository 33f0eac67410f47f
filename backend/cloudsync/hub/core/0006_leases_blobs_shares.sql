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
