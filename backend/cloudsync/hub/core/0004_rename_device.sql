-- +goose Up
-- +goose StatementBegin
-- rename_device changes the name of a device of the calling user.
create function app.rename_device(p_device uuid, p_name text) returns void
language plpgsql security definer set search_path = '' as $$
begin
    update app.device set name = left(p_name, 100) where device_id = p_device and user_id = app.uid() and revoked_at is null;
    if not found then
        raise exception 'no such device' using errcode = 'P0002';
    end if;
end $$;
revoke execute on function app.rename_device(uuid, text) from public;
grant execute on function app.rename_device(uuid, text) to helix_device;
-- +goose StatementEnd
