package trash

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

type actorKey struct{}

// By returns a context for a deletion made for the caller by a program such as a skill or the
// agent; "" is the caller.
func By(ctx context.Context, actor string) context.Context {
	if actor == "" {
		return ctx
	}
	return context.WithValue(ctx, actorKey{}, actor)
}

// actor returns who deletes in ctx.
func actor(ctx context.Context) string {
	if a, ok := ctx.Value(actorKey{}).(string); ok {
		return a
	}
	id, _ := identity.From(ctx)
	if id.Token != uuid.Nil {
		return identity.ClientToken.String()
	}
	return id.Client.String()
}

// Deleted records who moved items of user to the trash, in the same transaction.
func Deleted(tx *storage.Tx, user uuid.UUID, ids ...uuid.UUID) error {
	who := actor(tx.Context())
	for _, id := range ids {
		if _, err := tx.Exec(`INSERT INTO deletions (item_id, user_id, actor, at) VALUES (?, ?, ?, ?)
			ON CONFLICT (item_id) DO UPDATE SET actor = excluded.actor, at = excluded.at WHERE user_id = excluded.user_id`, id, user, who, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// Retention returns the retention policy of the records of who deleted an item.
func Retention() storage.Retention {
	return storage.Retention{Table: "deletions", Time: "at", Key: "item_id"}
}
