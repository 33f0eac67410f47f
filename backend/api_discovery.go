package backend

import (
	"helix/backend/discovery"
	"helix/backend/gateway"
)

func registerDiscovery(b *Backend, a *gateway.API) {
	s := b.Discovery
	gateway.Handle(a, "discovery.search", gateway.Read, s.Search)
	gateway.Handle(a, "discovery.request", gateway.Write, s.Request)
	gateway.Handle(a, "discovery.queue", gateway.Read, s.Queue)
	gateway.Handle(a, "discovery.queue_get", gateway.Read, s.QueueGet)
	gateway.Handle(a, "discovery.accept", gateway.Write, s.Accept, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "discovery.reject", gateway.Write, s.Reject)
	gateway.Alias(a, "discover_tool", "discovery.request")
	gateway.Alias(a, "discovery.cancel_request", "discovery.reject")
	gateway.Handle(a, "discovery.inspect_openapi", gateway.Write, uploadOnce(b, func(p discovery.InspectParams) (string, bool) { return p.Path, p.Path != "" }, pathParam(b, false, func(p *discovery.InspectParams) *string { return &p.Path }, s.InspectOpenAPI)), gateway.DocumentedBy(s.InspectOpenAPI), gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "discovery.operations", gateway.Read, s.Operations)
	gateway.Handle(a, "discovery.import_openapi", gateway.Write, s.ImportOpenAPI, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "discovery.list", gateway.Read, s.List)
	gateway.Handle(a, "discovery.get", gateway.Read, s.Get)
	gateway.Handle(a, "discovery.approve", gateway.Approve, s.Approve)
	gateway.Handle(a, "discovery.run", gateway.Write, s.Run, gateway.Costly(), gateway.Deadline(hour))
	gateway.Handle(a, "discovery.cancel", gateway.Write, s.Cancel)
	gateway.Handle(a, "discovery.install", gateway.Write, s.Install, gateway.Costly())
	gateway.Handle(a, "discovery.verify", gateway.Write, s.Verify, gateway.Costly())
	gateway.Handle(a, "discovery.upgrade", gateway.Write, uploadOnce(b, func(p discovery.UpgradeParams) (string, bool) { return p.Path, !p.DryRun }, pathParam(b, false, func(p *discovery.UpgradeParams) *string { return &p.Path }, s.Upgrade)), gateway.DocumentedBy(s.Upgrade), gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "discovery.set_enabled", gateway.Write, s.SetEnabled)
	gateway.Handle(a, "discovery.revoke", gateway.Write, s.Revoke)
	gateway.Handle(a, "discovery.set_auth", gateway.Approve, s.SetAuth)
	gateway.Handle(a, "discovery.clear_auth", gateway.Write, s.ClearAuth)
	gateway.Handle(a, "discovery.oauth_start", gateway.Approve, s.OAuthStart)
	gateway.Handle(a, "discovery.executions", gateway.Read, s.Executions)
	gateway.Handle(a, "discovery.execution", gateway.Read, s.Execution)
	gateway.Handle(a, "discovery.import_manifest", gateway.Write, uploadOnce(b, func(p discovery.ImportManifestParams) (string, bool) { return p.Path, p.DryRun != nil && !*p.DryRun }, pathParam(b, false, func(p *discovery.ImportManifestParams) *string { return &p.Path }, s.ImportManifest)), gateway.DocumentedBy(s.ImportManifest), gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Alias(a, "discovery.import", "discovery.import_manifest")
	gateway.Handle(a, "discovery.catalogs", gateway.Read, s.Catalogs)
	gateway.Handle(a, "discovery.catalog_add", gateway.Write, pathParam(b, false, func(p *discovery.CatalogAddParams) *string { return &p.Dir }, s.CatalogAdd), gateway.DocumentedBy(s.CatalogAdd), gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "discovery.catalog_remove", gateway.Write, s.CatalogRemove)
	gateway.Handle(a, "discovery.catalog_refresh", gateway.Write, s.CatalogRefresh, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Alias(a, "openapi.inspect", "discovery.inspect_openapi")

	gateway.Forward[discovery.Changed](a, "discovery.changed")
	gateway.Forward[discovery.ExecutionChanged](a, "discovery.execution")
	gateway.Forward[discovery.JobChanged](a, "discovery.job")
	gateway.Forward[discovery.RequestChanged](a, "discovery.request_changed")
	gateway.Forward[discovery.AuthChanged](a, "discovery.auth_changed")
}
