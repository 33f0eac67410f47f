package backend

import (
	"context"
	"net/http"
	"os"
	"strings"

	"helix/backend/config"
	"helix/backend/gateway"
	"helix/backend/mcp"
)

// openMCP creates the connections to MCP servers, and adds their tools to the registry. Nothing starts
// until a tool is called or listed.
func (b *Backend) openMCP(paths config.Paths) {
	b.MCP = mcp.New(b.DB, mcp.Options{
		Gate: b.callGate(), Logger: b.log, StateDir: paths.State, Version: Version, OwnPort: b.ownPort, Scrub: b.scrub, Callables: b.Callables, OAuth: b.oauth,
		Secret: b.Secrets.Value, SetSecret: b.Secrets.SetTx, Getenv: b.serverEnv,
	})
	b.Permission.Register(string(mcp.Kind), b.MCP, nil)
	b.Permission.RegisterAnswerer(string(mcp.Kind), b.MCP.AnswerApproval)
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

// routeMCP serves MCP to other programs at /mcp, if the user turned it on.
func (b *Backend) routeMCP(conf config.Config) {
	if !conf.MCPServeHTTP {
		return
	}
	h := b.MCP.Handler()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		b.Gateway.Route(method, "/mcp", gateway.Write, false, func(w http.ResponseWriter, r *http.Request) error {
			h.ServeHTTP(w, r)
			return nil
		})
	}
}

// exposed lists what other MCP programs may call, and where.
func (b *Backend) exposed(ctx context.Context, _ struct{}) (mcp.ExposedResult, error) {
	list, err := b.MCP.ListExposed(ctx)
	return b.exposedResult(list), err
}

// expose lets other MCP programs call a callable, or no longer. Its current definition is pinned:
// after a change it must be exposed again.
func (b *Backend) expose(ctx context.Context, p mcp.ExposeParams) (mcp.ExposedResult, error) {
	list, err := b.MCP.Expose(ctx, p)
	return b.exposedResult(list), err
}

func (b *Backend) exposedResult(list []mcp.Exposed) mcp.ExposedResult {
	out := mcp.ExposedResult{Tools: list}
	if out.Tools == nil {
		out.Tools = []mcp.Exposed{}
	}
	if url := b.Gateway.URL(); b.Config.Current().MCPServeHTTP && url != "" {
		out.Enabled, out.URL = true, strings.TrimSuffix(url, "/")+"/mcp"
	}
	return out
}
