package backend

import (
	"time"

	"helix/backend/gateway"
	"helix/backend/mcp"
)

func registerMCP(b *Backend, a *gateway.API) {
	s := b.MCP
	const callLimit = 11 * time.Minute // progress extends a call up to 10 minutes
	gateway.Handle(a, "mcp.servers", gateway.Read, s.ListServers)
	gateway.Handle(a, "mcp.server", gateway.Read, s.GetServer)
	gateway.Handle(a, "mcp.add", gateway.Write, s.Add)
	gateway.Handle(a, "mcp.update", gateway.Write, s.Update)
	gateway.Handle(a, "mcp.remove", gateway.Write, s.Remove)
	gateway.Handle(a, "mcp.undo", gateway.Write, s.Undo)
	gateway.Handle(a, "mcp.sources", gateway.Read, s.Sources)
	gateway.Handle(a, "mcp.import", gateway.Write, uploadOnce(b, func(p mcp.ImportParams) (string, bool) { return p.Path, p.DryRun != nil && !*p.DryRun }, pathParam(b, false, func(p *mcp.ImportParams) *string { return &p.Path }, s.Import)), gateway.DocumentedBy(s.Import))
	gateway.Handle(a, "mcp.export", gateway.Read, s.Export)
	gateway.Handle(a, "mcp.start", gateway.Write, s.Start, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.stop", gateway.Write, s.Stop)
	gateway.Handle(a, "mcp.restart", gateway.Write, s.Restart, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.tools", gateway.Read, s.ListTools, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.call", gateway.Write, s.Call, gateway.Costly(), gateway.Deadline(callLimit))
	gateway.Handle(a, "mcp.approve_server", gateway.Approve, s.ApproveServer)
	gateway.Handle(a, "mcp.logs", gateway.Read, s.Logs)
	gateway.Handle(a, "mcp.auth_start", gateway.Approve, s.AuthStart, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.auth_clear", gateway.Write, s.AuthClear, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.test", gateway.Write, s.Test, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.prompts", gateway.Read, s.Prompts, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.prompt", gateway.Write, s.GetPrompt, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.resources", gateway.Read, s.Resources, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.read_resource", gateway.Write, s.ReadResource, gateway.Deadline(runLimit))
	gateway.Handle(a, "mcp.exposed", gateway.Read, b.exposed)
	gateway.Handle(a, "mcp.expose", gateway.Admin, b.expose)
	gateway.Handle(a, "mcp.call_exposed", gateway.Write, s.CallExposed, gateway.Costly(), gateway.Deadline(callLimit))

	gateway.Forward[mcp.Changed](a, "mcp.changed")
	gateway.Forward[mcp.ToolsChanged](a, "mcp.tools_changed")
	gateway.Forward[mcp.AuthChanged](a, "mcp.auth_changed")
	gateway.Forward[mcp.Progress](a, "mcp.progress")
	gateway.Forward[mcp.LogAdded](a, "mcp.log")
}
