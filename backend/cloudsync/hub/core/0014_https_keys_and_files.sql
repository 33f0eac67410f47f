-- +goose Up
-- +goose StatementBegin
-- As before, and for callers through PostgREST.
create or replace function app.publish_box(p_key bytea, p_mac bytea, p_version int) returns void
language plpgsql security definer set search_path = '' as $$
begin
    update app.device set box_key = p_key, box_mac = p_mac, box_version = p_version where device_id = app.device_id();
end $$;

-- sync_call calls a function for keys or files through PostgREST. Bytes are in base64.
create function public.sync_call(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
declare a jsonb := p -> 'args';
begin
    perform app.https_call(p);
    case p ->> 'call'
    when 'keys' then
        return app.keys();
    when 'publish_box' then
        perform app.publish_box(decode(a ->> 0, 'base64'), decode(a ->> 1, 'base64'), (a ->> 2)::int);
    when 'add_key' then
        perform app.add_key((a ->> 0)::int, (a ->> 1)::jsonb, decode(a ->> 2, 'base64'), decode(a ->> 3, 'base64'));
    when 'blob' then
        return (select jsonb_build_object('chunk', chunk_size, 'count', cardinality(digests), 'complete', complete) from public.blobs where user_id = app.uid() and blob_id = decode(a ->> 0, 'base64'));
    when 'blob_begin' then
        return to_jsonb(sync.blob_begin(decode(a ->> 0, 'base64'), (a ->> 1)::bigint, (a ->> 2)::int,
            array(select decode(d, 'base64') from jsonb_array_elements_text(a -> 3) with ordinality e (d, n) order by n)));
    when 'blob_put' then
        return to_jsonb(sync.blob_put(decode(a ->> 0, 'base64'), (a ->> 1)::int, decode(a ->> 2, 'base64')));
    when 'blob_get' then
        return to_jsonb(encode(sync.blob_get(decode(a ->> 0, 'base64'), (a ->> 1)::int), 'base64'));
    when 'blob_used' then
        return to_jsonb(sync.blob_used(array(select decode(i, 'base64') from jsonb_array_elements_text(a -> 0) i)));
    end case;
    return null;
end $$;

-- As before; calls says that there is sync_call.
create or replace function public.sync_hello(p jsonb) returns jsonb language plpgsql set search_path = '' as $$
declare r jsonb;
begin
    perform app.https_call(p);
    r := sync.hello(p -> 'hello');
    perform set_config('helix.epoch', '', false); -- the connection is not only this device's
    return r || '{"calls": true}';
end $$;

do $$
begin
    if exists (select 1 from pg_roles where rolname = 'authenticated') then
        grant execute on function public.sync_call(jsonb) to authenticated;
    end if;
end $$;
-- +goose StatementEnd
