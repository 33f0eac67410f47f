package permission

import (
	"context"

	"helix/backend/identity"
)

func identityOf(ctx context.Context) identity.Identity {
	id, _ := identity.From(ctx)
	return id
}

func withIdentity(ctx context.Context, id identity.Identity) context.Context {
	return identity.With(ctx, id)
}
