package backend

import (
	"context"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/footprint"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/picks"
	"helix/backend/storage"
	"helix/backend/trash"
)

// openGateway creates the method table and the server; nothing listens yet.
func (b *Backend) openGateway(ctx context.Context, paths config.Paths, conf config.Config) error {
	token, source, err := b.Root.Token(ctx)
	if err != nil {
		return err
	}
	b.Services = gateway.NewServices(b.Bus, b.log)
	b.downloads = storage.NewDownloads(b.DB)
	b.uploads = picks.NewUploads(filepath.Join(paths.Cache, "uploads"), b.Picks, b.Memory.Importing, b.log)
	b.closing("uploads", func() func() error {
		unsubscribe := bus.Subscribe(b.Bus, func(uuid.UUID, memory.ImportDone) { b.uploads.Wake() })
		return func() error { unsubscribe(); return nil }
	}())
	b.API = gateway.NewAPI()
	b.Gateway = gateway.New(b.API, gateway.Options{
		DB: b.DB, Bus: b.Bus, Logger: b.log, User: b.user,
		Web: b.o.Web, Addr: conf.GatewayAddr, NoHTTP: !b.o.Listen || !conf.GatewayEnabled, Extra: b.o.Extra, Origins: conf.GatewayOrigins,
		RootToken: token, TokenSource: source, RotateRoot: b.Root.StoreToken, EndpointFile: endpointFile(paths),
		Version: Version, Commit: Commit, OpenRPC: openRPC, Blobs: b.downloads,
		Gate: b.gate, Ready: b.ready, Status: b.status, Stop: func() { b.requestStop() }, Activate: b.activate(), Services: b.Services, Pause: b.Pause,
		Audit: b.auditAccess, AuditTx: auditAccessTx, SessionEnded: b.sessionEnded, Limits: gateway.Limits{MaxPayload: int(conf.GatewayMaxPayload), CallDeadline: conf.GatewayCallTimeout, CostlyRate: float64(conf.GatewayCostlyRate)},
	})
	b.Gateway.Route("POST", "/execute", gateway.Write, true, b.serveExecute)
	b.Gateway.Route("POST", "/transcribe", gateway.Write, true, b.serveTranscribe)
	b.routeMCP(conf)
	b.Gateway.RouteOwn("POST", "/hooks/", gateway.Write, false, b.Channels.HookOwner, b.Channels.ServeHook)
	b.Gateway.RouteSocket("/sync", gateway.Write, b.Sync.ServeRelay)
	b.Gateway.Route("POST", "/upload", gateway.Write, false, b.uploads.Post)
	b.Gateway.Route("DELETE", "/upload", gateway.Write, false, b.uploads.Delete)
	if !b.o.Once {
		b.Services.Add("skill-sandbox", b.Sandbox.Run, b.sandboxPort)
	}
	if !b.o.Once || b.o.OnceMemory {
		b.Services.Add("memory", b.whenHealthy(b.Memory.Run), nil)
	}
	if !b.o.Once {
		b.Services.Add("skills", b.whenHealthy(b.Skills.Run), nil)
		b.Services.Add("agent", b.whenHealthy(b.Agent.Run), nil)
		b.Services.Add("channels", b.whenHealthy(b.Channels.Run), nil)
		b.Services.Add("voice-pipeline", b.whenHealthy(b.Voice.Run), nil)
		b.Services.Add("sync-coordinator", b.whenHealthy(b.Sync.Run), nil)
		b.Services.Add("memory-synthesis", b.whenHealthy(b.Synthesis.Run), nil)
		if conf.SchedulerEnabled {
			b.Services.Add("scheduler", b.whenHealthy(b.Scheduler.Run), nil)
		}
	}
	Register(b, b.API)
	b.core = gateway.NewServices(nil, b.log)
	for name, run := range map[string]func(context.Context) error{
		"gateway": b.Gateway.Run, "services": b.Services.Run, "storage": b.Storage.Run, "keys": b.whenHealthy(b.Keys.Run), "audit": b.whenHealthy(b.Audit.Run),
		"permission": b.whenHealthy(b.Permission.Run), "tools": b.whenHealthy(b.Tools.Run), "uploads": b.whenHealthy(b.uploads.Run), "discovery": b.whenHealthy(b.recoverDiscovery), "containers": b.whenHealthy(b.runContainers),
	} {
		b.core.Add(name, run, nil)
	}
	if b.telemetry != nil {
		b.core.Add("telemetry", b.telemetry.Run, nil)
	}
	if !b.o.Once {
		b.core.Add("sandbox", b.WasmTools.WatchSandbox, nil)
		b.core.Add("mcp", b.MCP.Run, nil)
		b.core.Add("footprint", footprint.Run, nil)
	}
	return nil
}

// activate returns what app.activate calls; nil without a window.
func (b *Backend) activate() func(context.Context, []string) error {
	if b.o.Desktop == nil {
		return nil
	}
	return b.o.Desktop.Activate
}

// sandboxPort returns the additional port that serves only POST /execute; 0: none.
func (b *Backend) sandboxPort() int {
	for _, e := range b.o.Extra {
		if _, ok := e.Routes["/execute"]; ok {
			return e.Port
		}
	}
	return 0
}

func (b *Backend) user() gateway.User {
	return gateway.User{ID: b.LocalUser(), DisplayName: b.DB.LocalUser().DisplayName}
}

func endpointFile(p config.Paths) string { return filepath.Join(p.Runtime, "endpoint.json") }

// inRecovery are the prefixes and names of methods that work while the database is damaged.
var inRecovery = []string{"storage.", "system.", "keys.", "rpc.", "session", "events.", "config.get", "config.schema", "connect", "app.activate", "services.list"}

// gate refuses methods that need an intact database while it is damaged.
func (b *Backend) gate(method string) error {
	st := b.DB.Recovery()
	if st == nil {
		return nil
	}
	for _, p := range inRecovery {
		if strings.HasPrefix(method, p) {
			return nil
		}
	}
	return fault.Unavailablef("%s", st.Message).WithDetails(map[string]string{"state": "recovery", "reason": st.Reason})
}

func (b *Backend) ready() string {
	if b.DB.Recovery() != nil {
		return "recovery"
	}
	return ""
}

// status fills in what the gateway does not know.
func (b *Backend) status(ctx context.Context, s *gateway.SystemStatus) error {
	s.DataDir = b.Config.Paths().Data
	s.Recovery = b.DB.Recovery() != nil
	add := func(area, reason, hint string) {
		s.Degraded = append(s.Degraded, gateway.Degraded{Area: area, Reason: reason, Hint: hint})
	}
	s.Degraded = append(s.Degraded, b.core.Degraded()...)
	for _, p := range append(b.Config.Problems(), b.Root.Problems()...) {
		if p.Degraded {
			add("config", p.Message, p.Hint)
		}
	}
	if b.DB.Keys().Locked() {
		add("keys", "The encryption key is not available.", "Unlock the keyring, or enter the recovery code under Settings › Keys.")
	}
	if why := b.Audit.Degraded(); why != "" {
		add("audit", why, "Runs that change something are refused until the log can be written again.")
	}
	if st := b.Sandbox.Status(); !st.Ready {
		add("sandbox", "Tools cannot run: "+st.Reason, "Run make engines and start Helix again.")
	}
	if b.encoder != "" {
		add("memory", b.encoder, "Run make models, build again and start Helix again. Until then memory is searched by words only.")
	}
	if r := b.DB.Recovery(); r != nil {
		add("database", r.Message, recoveryHint(r.Reason))
		return nil
	}
	if why := b.DB.ReadOnlyReason(); why != "" {
		add("storage", why, "Data can be read and not changed until then. Helix retries automatically.")
	} else if b.Storage.LowSpace() {
		add("storage", "The disk is nearly full. Imports, embeddings and backups are paused.", "Free some disk space. Helix continues automatically.")
	}
	st, err := b.Storage.Status(ctx, struct{}{})
	if err != nil {
		return err
	}
	s.SchemaVersion = st.SchemaVersion
	return nil
}

// recoveryHint returns a hint how to leave recovery mode.
func recoveryHint(reason string) string {
	switch reason {
	case "held":
		return "Start the older Helix, or run helix db migrate."
	case "missing":
		return "Run helix backup list, then helix restore PATH; or helix db start-new."
	}
	return "Run helix backup list, then helix restore PATH; or helix db salvage."
}

func accessEntry(e gateway.AuditEvent) audit.Entry {
	a := audit.Entry{User: e.User, ActorKind: "session", ActorID: e.Actor, Action: e.Action, SubjectKind: "access", SubjectID: e.Subject, Outcome: e.Outcome}
	if len(e.Details) > 0 {
		a.Details = e.Details
	}
	if e.Actor == "" {
		a.ActorKind = "peer"
	}
	return a
}

func (b *Backend) auditAccess(ctx context.Context, e gateway.AuditEvent) {
	if err := b.Audit.Record(context.WithoutCancel(ctx), accessEntry(e)); err != nil {
		b.log.Warn("access was not written to the audit log", "action", e.Action, "err", err)
	}
}

// sessionEnded revokes the permissions that were granted for the session.
func (b *Backend) sessionEnded(ctx context.Context, id identity.Identity) {
	if b.DB.Recovery() != nil {
		return
	}
	if err := b.Permission.EndSession(ctx, id.Session); err != nil { // while stopping, the database may already be closed
		b.log.Debug("grants of an ended session stay until the next start", "err", err)
	}
}

func auditAccessTx(tx *storage.Tx, e gateway.AuditEvent) error {
	return audit.Append(tx, accessEntry(e))
}

// openTrash creates the trash for deleted items of all domains. Items are kept as long as retention
// says.
func (b *Backend) openTrash() {
	kinds := append(b.Tools.Trash(), b.Skills.Trash(), b.Scheduler.Trash())
	kinds = append(append(kinds, b.Memory.Trash()...), b.Agent.Trash(), b.Voice.Trash(), b.Voice.CommandTrash())
	b.Trash = trash.New(b.DB, b.DB.TrashAge, kinds...)
}

// ownPort reports whether Helix itself listens on a port of this computer: no tool may reach these
// ports, regardless of its grants.
func (b *Backend) ownPort(port int) bool {
	if u, err := url.Parse(b.Gateway.URL()); err == nil && u.Port() == strconv.Itoa(port) {
		return true
	}
	return slices.ContainsFunc(b.o.Extra, func(e gateway.Extra) bool { return e.Port == port })
}
