package backend

import (
	"os"
	"strings"

	"helix/backend/config"
	"helix/backend/mcp"
)

// openMCP creates the connections to MCP servers, and adds their tools to the registry. Nothing starts
// until a tool is called or listed.
func (b *Backend) openMCP(paths config.Paths) {
	b.MCP = mcp.New(b.DB, mcp.Options{
		Gate: b.callGate(), Logger: b.log, StateDir: paths.State, Version: Version, OwnPort: b.ownPort, Scrub: b.scrub, Callables: b.Callables,
		Secret: b.Secrets.Value, SetSecret: b.Secrets.SetTx, Getenv: b.serverEnv,
	})
	b.Permission.Register(string(mcp.Kind), b.MCP, nil)
	b.Callables.Add(b.MCP.Provider())
	b.closing("mcp", b.MCP.Close)
}

// serverEnv reads the environment for MCP servers, which get no setting or key of Helix.
func (b *Backend) serverEnv(name string) string {
	if strings.HasPrefix(strings.ToUpper(name), "HELIX_") {
		return ""
	}
	if b.o.Environ != nil { // only what the caller of Open passed
		return b.o.Environ(name)
	}
	return os.Getenv(name)
}
