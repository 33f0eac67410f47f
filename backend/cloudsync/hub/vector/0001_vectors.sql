-- +goose Up
-- +goose StatementBegin
-- Embeddings of memories, where the database has the extension vector (pgvector). Devices send them only if the
-- setting sync.vectors is on and their texts are not encrypted. @ stands for the schema of the extension.
do $migration$
declare
    at text := (select quote_ident(n.nspname) || '.' from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
    -- Without this, an index search stops before it has found as many rows of one user as it should.
    scan text := (select case when string_to_array(extversion, '.')::int[] >= array[0, 8] then 'set hnsw.iterative_scan = strict_order' else '' end from pg_extension where extname = 'vector');
begin
    execute replace($sql$
        create table public.memory_vectors (
            user_id   uuid not null,
            id        uuid not null,
            model_id  text not null check (length(model_id) between 1 and 200),
            dims      int not null check (dims = @vector_dims(embedding)),
            text_hash bytea not null, -- content_hash of the text that the vector was computed from
            embedding @vector not null,
            primary key (user_id, id, model_id),
            foreign key (user_id, id) references public.memories on delete cascade
        );
        -- The length of the vectors of the encoder that Helix contains. Others are searched without an index.
        create index memory_vectors_512 on public.memory_vectors using hnsw ((embedding::@vector(512)) @vector_cosine_ops) where dims = 512;

        -- put_vectors stores vectors of one model, for memories whose text has not changed since. It never
        -- accepts one of an encrypted text. It returns how many it stored.
        create function sync.put_vectors(p_model text, p_ids uuid[], p_hashes bytea[], p_vectors text[]) returns int
        language plpgsql security definer set search_path = '' as $body$
        declare n int;
        begin
            insert into public.memory_vectors (user_id, id, model_id, dims, text_hash, embedding)
                select m.user_id, m.id, p_model, @vector_dims(v.embedding), v.hash, v.embedding
                from (select u.id, u.hash, u.text::@vector as embedding from unnest(p_ids, p_hashes, p_vectors) u (id, hash, text)) v
                join public.memories m on m.user_id = app.uid() and m.id = v.id and m.content_hash = v.hash and m.deleted_at is null and m.content not like 'hx1.%'
            on conflict (user_id, id, model_id) do update set dims = excluded.dims, text_hash = excluded.text_hash, embedding = excluded.embedding;
            get diagnostics n = row_count;
            return n;
        end $body$;
    $sql$, '@', at);
    execute replace(replace($sql$
        -- search_memories returns the memories of the calling user that are nearest to a vector of the given
        -- model, with the cosine of the angle between the two.
        create function sync.search_memories(p_vector @vector, p_model text, p_limit int default 10)
        returns table (id uuid, similarity double precision, type text, content text, tags text, created_at timestamptz)
        language plpgsql stable set search_path = '' SCAN as $body$
        begin
            return query execute format($query$
                select m.id, 1 - (v.embedding::@vector(%1$s) operator(@<=>) $1), m.type, m.content, m.tags, m.created_at
                from public.memory_vectors v join public.memories m on m.user_id = v.user_id and m.id = v.id and m.content_hash = v.text_hash
                where v.user_id = app.uid() and v.model_id = $2 and v.dims = %1$s and m.deleted_at is null
                order by v.embedding::@vector(%1$s) operator(@<=>) $1 limit $3$query$, @vector_dims(p_vector)) using p_vector, p_model, p_limit;
        end $body$;
        grant execute on function sync.search_memories(@vector, text, int) to helix_device;
    $sql$, '@', at), 'SCAN', scan);
end $migration$;

-- wanted_vectors lists memories after p_after without a vector of their text.
create function sync.wanted_vectors(p_model text, p_after uuid, p_max int) returns table (id uuid, hash bytea)
language sql stable set search_path = '' as $$
    select m.id, m.content_hash from public.memories m
    where m.user_id = (select app.uid()) and m.id > p_after and m.deleted_at is null and m.content_hash is not null and m.content not like 'hx1.%'
        and not exists (select 1 from public.memory_vectors v where v.user_id = m.user_id and v.id = m.id and v.model_id = p_model and v.text_hash = m.content_hash)
    order by m.id limit p_max
$$;

-- remove_vectors removes all vectors of the calling user.
create function sync.remove_vectors() returns void language sql security definer set search_path = '' as
$$ delete from public.memory_vectors where user_id = app.uid() $$;

-- The vectors of a deleted memory are removed at once: they say something about its text.
create function sync.drop_vectors() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
    delete from public.memory_vectors v using new_rows n where v.user_id = n.user_id and v.id = n.id and n.deleted_at is not null;
    return null;
end $$;
create trigger drop_vectors after update on public.memories referencing new table as new_rows for each statement execute function sync.drop_vectors();

alter table app.helix_vector_migrations enable row level security;
alter table app.helix_vector_migrations force row level security;
create policy owner_all on app.helix_vector_migrations to helix_owner using (true) with check (true);
alter table public.memory_vectors enable row level security;
alter table public.memory_vectors force row level security;
create policy owner_all on public.memory_vectors to helix_owner using (true) with check (true);
create policy own_select on public.memory_vectors for select to helix_device using (user_id = (select app.uid()));
grant select on public.memory_vectors to helix_device;
revoke execute on function sync.put_vectors(text, uuid[], bytea[], text[]), sync.wanted_vectors(text, uuid, int), sync.remove_vectors(), sync.drop_vectors() from public;
grant execute on function sync.put_vectors(text, uuid[], bytea[], text[]), sync.wanted_vectors(text, uuid, int), sync.remove_vectors() to helix_device;
-- +goose StatementEnd
