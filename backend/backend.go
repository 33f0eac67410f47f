// Package backend connects the parts of Helix: Open creates every service, Run runs the background
// services, Close shuts them down. It is the only composition root; the window, the command line
// and the tests all start here.
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/agent/eval"
	"helix/backend/audio/capture"
	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/channels"
	"helix/backend/cloudsync"
	"helix/backend/config"
	"helix/backend/container"
	"helix/backend/containertools"
	"helix/backend/coretools"
	"helix/backend/discovery"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/logfile"
	"helix/backend/mcp"
	"helix/backend/memory"
	"helix/backend/oauth"
	"helix/backend/otlp"
	"helix/backend/pause"
	"helix/backend/permission"
	"helix/backend/picks"
	"helix/backend/providers"
	"helix/backend/psychology"
	"helix/backend/sandbox"
	"helix/backend/scheduler"
	"helix/backend/shell"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/synthesis"
	"helix/backend/tools"
	"helix/backend/trash"
	"helix/backend/voice"
	"helix/backend/wasmtools"
)

// Version and Commit are set when the program is built (-ldflags -X).
var (
	Version = "dev"
	Commit  = ""
)

// Options configure Open. The zero value opens this machine's installation.
type Options struct {
	DataDir string              // puts all folders below this one; "": the system's default locations
	EnvFile string              // an additional .env file
	Environ func(string) string // nil: os.Getenv
	Flags   map[string]string   // settings from the command line, by key
	Keyring config.Keyring      // nil: the system's
	Logger  *slog.Logger        // nil: a log file in the state folder, warnings to Stderr too
	LogTo   slog.Level          // lowest level that also goes to standard error; default info
	Web     fs.FS               // the built interface; nil: none
	Worker  []string            // the result of sandbox.ServeWorker; nil: no code runs in a child process

	Listen bool // serve HTTP and WebSocket on loopback
	// Once is for a process that runs a single command: interrupted work is not continued and
	// schedules do not fire, because the process ends soon.
	Once bool
	// OnceMemory makes such a process import and embed nevertheless, while the command waits.
	OnceMemory bool
	// OnceSandbox prepares the sandbox of such a process while the database opens, for a command
	// that runs code; otherwise the first run prepares it.
	OnceSandbox bool
	Extra       []gateway.Extra
	Desktop     Desktop            // the window program; nil: headless
	Microphone  capture.Microphone // nil: that of this computer
	Claim       *Claim             // the lock of the data folder, which Open takes over; nil: Open takes it itself
	// ReleaseHold allows this version to migrate again after a rollback.
	ReleaseHold bool
	// Progress reports the progress of a migration during Open.
	Progress func(step string, done, total int64)

	shell coretools.Shell // for tests; nil: the container engine
	clock scheduler.Clock // of schedules, for tests; nil: the computer's
}

// Backend is one running Helix with one data folder.
type Backend struct {
	Config     *config.Service
	Root       *config.Root
	Bus        *bus.Bus
	Pause      *pause.Pause // pauses background work
	DB         *storage.DB
	Keys       *storage.Keys
	Secrets    *storage.Secrets
	Storage    *storage.Service
	Audit      *audit.Service
	Permission *permission.Service
	Sandbox    *sandbox.Engine
	Tools      *tools.Service
	WasmTools  *wasmtools.Service
	Callables  *callable.Registry
	Skills     *skills.Service
	CoreTools  *coretools.Service
	Scheduler  *scheduler.Service
	Memory     *memory.Service
	Synthesis  *synthesis.Service
	Psychology *psychology.Service
	Providers  *providers.Service
	Ledger     *agent.Ledger // costs of model calls
	Agent      *agent.Service
	Eval       *eval.Service
	Voice      *voice.Service
	MCP        *mcp.Service
	Discovery  *discovery.Service
	Containers *containertools.Service
	Shell      *shell.Service
	Channels   *channels.Service
	Trash      *trash.Service
	Sync       *cloudsync.Service
	Gateway    *gateway.Server
	Services   *gateway.Services // those that a person can start and stop
	Picks      *picks.Picks
	API        *gateway.API // the method table that Gateway serves

	embedder  memory.Embedder                               // nil without a sentence encoder
	scrub     func(ctx context.Context, text string) string // removes the secrets of the user in ctx
	telemetry *otlp.Exporter                                // nil: off
	encoder   string                                        // why there is no sentence encoder; "" if there is one
	downloads *storage.Downloads
	uploads   *picks.Uploads

	engine    *container.Engine
	oauth     *oauth.Service
	core      *gateway.Services // services that run as long as the backend, including Services
	builtins  *callable.Set
	assistant *callable.Set     // tools for agents only
	subjects  callable.Subjects // of built-ins, for permission checks

	log     *slog.Logger
	o       Options
	mu      sync.Mutex
	stop    context.CancelFunc // ends Run; nil before Run
	stopped bool               // Stop or Close was called, so Run must not start
	ended   chan struct{}      // closed when Run has returned
	closers []closer           // in order of opening
	once    sync.Once
	err     error
}

type closer struct {
	name  string
	close func() error
}

// Open creates every service and starts nothing. It fails with Conflict if another Helix is using
// the folder. A missing keyring, missing engine artefacts or an unreadable database is not an
// error; system.status reports it.
func Open(ctx context.Context, o Options) (_ *Backend, err error) {
	b := &Backend{o: o, Bus: bus.New(), ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if o.Claim != nil {
		b.closing("lock", o.Claim.Release)
	}
	b.Config, err = config.Load(config.Options{DataDir: o.DataDir, EnvFile: o.EnvFile, Environ: o.Environ, Flags: o.Flags, Bus: b.Bus, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	paths, conf := b.Config.Paths(), b.Config.Current()
	home, _ := os.UserHomeDir() // without one, ~ is not expanded
	b.Picks = picks.New(filepath.Join(paths.Data, "backups"), home)
	if b.log = o.Logger; b.log == nil {
		b.log = b.openLog(paths.State, conf)
	}
	if b.Pause, err = pause.Open(filepath.Join(paths.State, "pause.json"), b.Bus); err != nil {
		b.log.Warn("background work is not paused", "err", err)
	}
	if o.Claim == nil {
		claim, err := ClaimFolder(o)
		if err != nil {
			return nil, err
		}
		b.closing("lock", claim.Release)
	}

	// The engine is prepared while the database opens, because they are independent.
	engine := sync.OnceValues(func() (*sandbox.Engine, error) {
		return sandbox.Open(ctx, sandbox.Options{CacheDir: filepath.Join(paths.Cache, "engine"), MinIsolation: conf.SandboxMinIsolation, WorkerCommand: o.Worker, Lazy: o.Once && !o.OnceSandbox})
	})
	go engine() //nolint:errcheck // openDomains reads the result
	b.closing("sandbox", func() error {
		if e, _ := engine(); e != nil {
			return e.Close() // already closed unless Open failed before the domains
		}
		return nil
	})

	passphrase, _ := b.Config.Env("HELIX_KEY_PASSPHRASE")
	if b.Root, err = b.Config.OpenRoot(ctx, config.RootOptions{Keyring: o.Keyring, Passphrase: passphrase, Logger: b.log}); err != nil {
		return nil, fmt.Errorf("open the keyring: %w", err)
	}
	if err := b.openStorage(ctx, paths, conf); err != nil {
		return nil, err
	}
	if err := b.openDomains(ctx, paths, conf, engine); err != nil {
		return nil, err
	}
	return b, b.openGateway(ctx, paths, conf)
}

func (b *Backend) closing(name string, fn func() error) {
	b.closers = append(b.closers, closer{name, fn})
}

func (b *Backend) openStorage(ctx context.Context, paths config.Paths, conf config.Config) (err error) {
	keys := storage.NewKeys(b.Root)
	b.DB, err = storage.Open(ctx, storage.Options{
		Path: paths.Database(), Keys: keys, Bus: b.Bus, Logger: b.log, Version: Version,
		Audit: func(tx *storage.Tx, action string, details any) error {
			return audit.Append(tx, audit.Entry{Action: action, SubjectKind: "storage", Details: details})
		},
		Traces:         []string{auditHead(paths)},
		AllowNetworkFS: conf.StorageAllowNetworkFS, ReleaseHold: b.o.ReleaseHold, Progress: b.o.Progress,
		TrashAge: func() time.Duration { return b.Config.Current().HistoryTrashMaxAge },
	})
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	b.closing("database", b.DB.Close)
	b.Keys = keys
	b.Secrets = storage.NewSecrets(b.DB)
	return nil
}

func (b *Backend) openDomains(ctx context.Context, paths config.Paths, conf config.Config, engine func() (*sandbox.Engine, error)) (err error) {
	b.Audit = audit.New(b.DB, audit.Options{
		Logger: b.log, HeadFile: auditHead(paths),
		DetailsDays: func() int { return days(b.Config.Current().AuditDetailsMaxAge) },
		EntryDays:   func() int { return days(b.Config.Current().AuditEntriesMaxAge) },
		Name:        b.subjectName,
	})
	b.Config.SetAudit(func(ctx context.Context, keys []string) error {
		return b.Audit.Record(ctx, audit.Entry{Action: "config.changed", SubjectKind: "config", Details: map[string]any{"keys": keys}})
	})
	home, err := os.UserHomeDir()
	if err != nil {
		b.log.Warn("no home folder: $HOME in capabilities means nothing", "err", err)
	}
	own := []string{paths.Config, paths.Data, paths.State, paths.Cache, paths.Runtime}
	toolFiles := filepath.Join(paths.Data, "tool-files")
	b.Permission = permission.New(b.DB, b.Bus, permission.Options{
		Logger: b.log, Home: home, Own: own, OwnPort: b.ownPort, Audit: b.Audit, Asked: b.approvalAsked,
		StateDir: func(s permission.Subject) string {
			return cmp.Or(tools.StateFolder(toolFiles, s), coretools.VaultFolder(workspaces(paths), s))
		},
	})
	if b.Sandbox, err = engine(); err != nil && b.Sandbox == nil {
		return fmt.Errorf("open the sandbox: %w", err)
	} else if err != nil {
		b.log.Warn("tools cannot run", "err", err) // not an error: system.status reports it too
	}
	b.closing("sandbox", b.Sandbox.Close)
	b.Sync = cloudsync.New(b.DB, b.Secrets, cloudsync.Options{
		Logger: b.log, Version: Version, Private: conf.StoragePrivate, Exports: filepath.Join(paths.Data, "exports"),
		Partial: filepath.Join(paths.Cache, "sync"), KeepBlobs: func() bool { return b.Config.Current().SyncKeepFiles },
		Vectors: func() bool { return b.Config.Current().SyncVectors },
		ChangedUser: func(from, to uuid.UUID) {
			b.Gateway.ChangeUser(from, gateway.User{ID: to, DisplayName: b.DB.LocalUser().DisplayName})
		},
	})
	b.closing("sync", b.Sync.Close)
	b.Config.SetAllow(func(ctx context.Context, values map[string]any) error {
		if values["sync.vectors"] == true {
			return b.Sync.AllowVectors(ctx)
		}
		return nil
	})
	b.WasmTools = wasmtools.New(b.DB, b.Permission, b.Sandbox, conf.SandboxMinIsolation)
	b.Tools = tools.New(b.DB, b.Permission, b.Audit, b.Sandbox, b.WasmTools, tools.Options{
		Logger: b.log, StateDir: toolFiles, Home: home, Own: own, OwnPort: b.ownPort, Hub: b.Sync.ToolShares(),
	})
	b.openSkills(conf)
	b.openEngine(paths, conf)
	b.openCoreTools(paths, conf, own)
	b.openScheduler()
	b.openMemory(conf)
	b.openSynthesis(conf)
	b.openPsychology()
	if err := b.openProviders(); err != nil {
		return err
	}
	b.openAgent(ctx, paths, conf)
	b.openVoice(paths, conf)
	b.oauth = oauth.New(oauth.Options{DB: b.DB, Secrets: b.Secrets, Logger: b.log, DenyPort: b.ownPort})
	b.closing("oauth", b.oauth.Close)
	b.openMCP(paths)
	b.openDiscovery()
	b.openContainers(conf)
	b.openChannels(conf)
	b.openTrash()
	b.Secrets.SetUsedBy(b.secretUsers)
	b.Storage = storage.NewService(b.DB, storage.ServiceOptions{
		ConfigFile: paths.ConfigFile(), UserDir: paths.User,
		Policy: b.storagePolicy, Pause: b.Pause,
		Retention: append(append(append(tools.Retention(), psychology.Retention()...), channels.Retention()...), scheduler.Retention(), synthesis.Retention(), agent.Retention(), agent.AttachmentRetention(), trash.Retention(), voice.Retention(), discovery.Retention(), mcp.Retention(), containertools.Retention(), eval.Retention(),
			skills.Retention(conf.SkillsHistoryRuns, conf.SkillsHistoryBytes, scheduler.LastFailures)),
		EndSessions: func() {
			b.Config.FileChanged(b.LocalUser())
			b.Gateway.EndSessions()
		},
		Busy: func() bool { return b.Tools.Busy() || b.Skills.Busy() || b.Memory.Busy() || b.Synthesis.Busy() },
	})
	return nil
}

func auditHead(p config.Paths) string { return filepath.Join(p.State, "audit-head") }

// subjectName returns the name of a subject in the audit log, even if it is in the trash; "" if it
// no longer exists or is not the caller's.
func (b *Backend) subjectName(ctx context.Context, kind, id string) string {
	name := b.currentName(ctx, kind, id)
	key, err := uuid.Parse(id)
	if name != "" || err != nil || !slices.Contains([]string{"tool", "wasm", "skill"}, kind) {
		return name
	}
	if name, err = b.Trash.Name(ctx, kind, key); err != nil {
		b.log.Warn("name of a deleted subject", "err", err)
	}
	return name
}

func (b *Backend) currentName(ctx context.Context, kind, id string) string {
	switch kind {
	case "tool", "wasm":
	case "skill":
		return b.skillName(ctx, id)
	case audit.TokenActor:
		return b.Gateway.TokenName(ctx, id)
	case string(discovery.Kind):
		return b.Discovery.NameOf(ctx, id)
	case string(containertools.Kind):
		return b.Containers.NameOf(ctx, id)
	case string(callable.Builtin):
		name, _, _ := strings.Cut(id, " ")
		return name
	default:
		return ""
	}
	info, err := b.Tools.Subject(ctx, kind, id)
	if err != nil {
		return ""
	}
	return info.Name
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

func (b *Backend) storagePolicy() storage.Policy {
	c := b.Config.Current()
	p := storage.DefaultPolicy()
	p.AutoBackup = c.BackupAuto == "daily"
	p.BackupMax, p.BackupAge = c.BackupMaxBytes, c.BackupMaxAge
	p.KeepDaily, p.KeepWeekly, p.KeepSnapshots = c.BackupKeepDaily, c.BackupKeepWeekly, c.BackupKeepPreMigration
	p.HistoryRows, p.HistoryAge, p.PayloadAge = c.HistoryMaxRows, c.HistoryMaxAge, c.HistoryPayloadMaxAge
	p.TrashAge = b.DB.TrashAge()
	return p
}

// nobody is the user while a damaged database cannot be read: sessions need a user, and no row
// belongs to this one.
var nobody = uuid.MustParse("00000000-0000-8000-8000-000000000001")

// LocalUser returns the person whose data this is.
func (b *Backend) LocalUser() uuid.UUID {
	if id := b.DB.LocalUser().ID; id != uuid.Nil {
		return id
	}
	return nobody
}

// Run runs the background services until ctx ends or the backend is stopped. It returns nil on a
// clean stop. It may be called only once.
func (b *Backend) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b.mu.Lock()
	if b.stop != nil {
		b.mu.Unlock()
		return fault.Internalf(errors.New("backend: Run twice"), "Helix is already running.")
	}
	b.stop = cancel
	if b.stopped {
		cancel()
	}
	b.mu.Unlock()
	defer close(b.ended)
	return b.core.Run(ctx)
}

// whenHealthy delays run until the database is usable: in recovery mode its work could only fail,
// so it starts after a backup or a salvage has been put in place.
func (b *Backend) whenHealthy(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		again := make(chan struct{}, 1)
		cancel := bus.Subscribe(b.Bus, func(uuid.UUID, storage.Replaced) {
			select {
			case again <- struct{}{}:
			default:
			}
		})
		defer cancel()
		for b.DB.Recovery() != nil {
			select {
			case <-again:
			case <-ctx.Done():
				return nil
			}
		}
		return run(ctx)
	}
}

// requestStop ends Run; the caller of Run then closes the backend. It reports whether Run was
// running.
func (b *Backend) requestStop() (running bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	if b.stop == nil {
		return false
	}
	b.stop()
	return true
}

// Stop ends Run and closes everything. The error names what has not ended when ctx does; it is
// abandoned.
func (b *Backend) Stop(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- b.Close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stopping took too long: %w", ctx.Err())
	}
}

// Close stops Run, waits for it and closes what Open opened, in reverse order. It may be called
// twice, and also if Run was never called.
func (b *Backend) Close() error {
	b.once.Do(func() {
		if b.requestStop() {
			<-b.ended
		}
		for i := len(b.closers) - 1; i >= 0; i-- {
			if err := b.closers[i].close(); err != nil {
				b.err = errors.Join(b.err, fmt.Errorf("close %s: %w", b.closers[i].name, err))
			}
		}
	})
	return b.err
}

// openLog writes to <state>/helix.log and repeats records of level o.LogTo or higher on
// standard error. If the file cannot be written, logging continues without it.
func (b *Backend) openLog(dir string, conf config.Config) *slog.Logger {
	file := logfile.New(filepath.Join(dir, "helix.log"), conf.HistoryLogMaxAge)
	b.closing("log", file.Close)
	level := slog.LevelInfo
	if err := level.UnmarshalText([]byte(conf.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewMultiHandler(
		slog.NewJSONHandler(file, &slog.HandlerOptions{Level: level}),
		slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: b.o.LogTo}),
	))
}
