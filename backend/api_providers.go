package backend

import (
	"helix/backend/gateway"
	"helix/backend/providers"
)

func registerProviders(b *Backend, a *gateway.API) {
	s := b.Providers
	gateway.Handle(a, "providers.list", gateway.Read, s.List)
	gateway.Handle(a, "providers.get", gateway.Read, s.Get)
	gateway.Handle(a, "providers.set", gateway.Admin, s.Set)
	gateway.Handle(a, "providers.remove", gateway.Admin, s.Remove)
	gateway.Handle(a, "providers.test", gateway.Write, s.Test, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "providers.detect", gateway.Write, s.Detect, gateway.Costly())
	gateway.Handle(a, "providers.models", gateway.Read, s.Models)
	gateway.Handle(a, "providers.roles", gateway.Read, s.Roles)
	gateway.Handle(a, "providers.set_role", gateway.Write, s.SetRole)
	gateway.Handle(a, "providers.count_tokens", gateway.Read, s.CountTokens)
	gateway.Handle(a, "catalog.show", gateway.Read, s.Show)
	gateway.Handle(a, "catalog.fetch", gateway.Admin, s.Fetch, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "catalog.verify", gateway.Read, s.Verify)

	gateway.Forward[providers.Changed](a, "providers.changed")
	gateway.Forward[providers.CatalogChanged](a, "providers.catalog_changed")
}
