package backend

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Layers of the program; an import must point to a lower layer.
const (
	foundation = iota + 1
	engine
	domain
	composition
	face
	entry
)

// levels is the layer of each package. A new package needs a line here.
var levels = map[string]int{
	"backend/duration":                     foundation,
	"backend/lazyregexp":                   foundation,
	"backend/lru":                          foundation,
	"backend/footprint":                    foundation,
	"backend/scrub":                        foundation,
	"backend/fault":                        foundation,
	"backend/picks":                        foundation,
	"backend/pause":                        foundation,
	"backend/logfile":                      foundation,
	"backend/bus":                          foundation,
	"backend/identity":                     foundation,
	"backend/jcs":                          foundation,
	"backend/schema":                       foundation,
	"backend/config":                       foundation,
	"backend/storage":                      foundation,
	"backend/storage/storagetest":          foundation,
	"backend/gateway":                      foundation,
	"backend/gateway/gatewaytest":          foundation,
	"backend/gateway/apigen":               foundation,
	"backend/audit":                        foundation,
	"backend/testkit":                      foundation,
	"backend/permission":                   foundation,
	"backend/safehttp":                     foundation,
	"backend/safehttp/safehttptest":        foundation,
	"backend/callable":                     foundation,
	"backend/lifecycle":                    foundation,
	"backend/trash":                        foundation,
	"backend/callable/netgate":             foundation,
	"backend/callable/callabletest":        foundation,
	"backend/sandbox":                      engine,
	"backend/sandbox/sandboxtest":          engine,
	"backend/sandbox/qjs":                  engine,
	"backend/sandbox/prelude":              engine,
	"backend/sandbox/linear":               engine,
	"backend/sandbox/rootfs":               engine,
	"backend/sandbox/worker":               engine,
	"backend/sandbox/meter":                engine,
	"backend/skills/expr":                  engine,
	"backend/skills/definition":            engine,
	"backend/skills/machine":               engine,
	"backend/scheduler/cadence":            engine,
	"backend/kernel":                       engine,
	"backend/vector":                       engine,
	"backend/otlp":                         engine,
	"backend/embed":                        engine,
	"backend/valence":                      engine,
	"backend/memory":                       domain,
	"backend/memory/search":                domain,
	"backend/memory/locomo":                domain,
	"backend/synthesis":                    domain,
	"backend/psychology":                   domain,
	"backend/providers":                    domain,
	"backend/agent":                        domain,
	"backend/agent/eval":                   domain,
	"backend/providers/recordings":         engine,
	"backend/providers/providerstest":      domain,
	"backend/cluster":                      engine,
	"backend/memory/importer":              engine,
	"backend/memory/importer/importertest": engine,
	"app/e2e":                              face,
	"app/e2e/windowtest":                   foundation,
	"backend/tools":                        domain,
	"backend/coretools":                    domain,
	"backend/wasmtools":                    domain,
	"backend/skills":                       domain,
	"backend/scheduler":                    domain,
	"backend/cloudsync":                    domain,
	"backend/audio":                        engine,
	"backend/audio/capture":                engine,
	"backend/audio/denoise":                engine,
	"backend/audio/capture/capturetest":    engine,
	"backend/transcribe":                   engine,
	"backend/openapi":                      engine,
	"backend/calendar":                     engine,
	"backend/mail":                         engine,
	"backend/oauth":                        engine,
	"backend/oauth/oauthtest":              foundation,
	"backend/container":                    engine,
	"backend/container/containertest":      engine,
	"backend/container/guest":              engine,
	"backend/container/guest/init":         entry,
	"backend/containertools":               domain,
	"backend/shell":                        domain,
	"backend/voice":                        domain,
	"backend/mcp":                          domain,
	"backend/discovery":                    domain,
	"backend/channels":                     domain,
	"backend/channels/channelstest":        domain,
	"backend/cloudsync/hubtest":            foundation,
	"backend":                              composition,
	"app":                                  face,
	"app/cli":                              face,
	"app/autostart":                        face,
	"app/hotkey":                           face,
	"app/notices":                          face,
	"app/tray":                             face,
	"app/tray/traytest":                    foundation,
	"app/cli/tui":                          face,
	"app/cmd/helix":                        entry,
	"frontend":                             foundation,
	"build/gen":                            entry,
	"build/demo":                           entry,
	"build/notices":                        entry,
	"build/testlog":                        entry,
	"build/xcheck":                         entry,
	"build/engines/gen":                    entry,
	"build/models/gen":                     entry,
	"build/models/valence":                 entry,
	"":                                     entry,
}

// sideways lists the imports within one layer, each with its reason.
var sideways = map[string]map[string]string{
	"backend/container": {
		"backend/container/guest": "the protocol of the init process, which is linked into both",
	},
	"app": {
		"app/autostart": "starts Helix with the computer",
		"app/hotkey":    "registers keys for the whole desktop",
		"app/notices":   "decides which notifications are shown",
		"app/tray":      "shows the icon",
	},
	"app/cli": {
		"app/cli/tui": "helix chat shows it, and shares its fold of events with the line mode",
	},
	"backend/storage": {
		"backend/fault":    "coded errors",
		"backend/bus":      "a change is announced after its commit",
		"backend/identity": "the service methods act for the caller",
		"backend/pause":    "low space pauses background work, and a pause holds backups back",
	},
	"backend/config": {
		"backend/fault":    "coded errors",
		"backend/bus":      "config.changed",
		"backend/identity": "config.changed names its user",
	},
	"backend/jcs": {
		"backend/fault": "refusals of bad JSON are coded",
	},
	"backend/schema": {
		"backend/fault": "coded errors",
		"backend/jcs":   "reads JSON strictly",
	},
	"backend/agent/eval": {
		"backend/agent":     "what it evaluates",
		"backend/providers": "scripts stand for models",
	},
	"backend/providers/providerstest": {
		"backend/providers": "emulates the services whose entries and replies it names",
	},
	"backend/audit": {
		"backend/fault":    "coded errors",
		"backend/bus":      "audit.appended",
		"backend/identity": "an entry names who acted",
		"backend/storage":  "an entry is part of the caller's transaction",
		"backend/jcs":      "details are hashed in canonical form",
	},
	"backend/permission": {
		"backend/fault":    "coded errors",
		"backend/bus":      "approvals.changed, permissions.changed",
		"backend/identity": "grants belong to a user",
		"backend/storage":  "grants are rows",
		"backend/jcs":      "definitions are pinned by canonical hash",
		"backend/audit":    "a decision and its entry are one transaction",
	},
	"backend/lifecycle": {
		"backend/fault":    "coded errors",
		"backend/audit":    "a change and its entry are one transaction",
		"backend/identity": "a restore acts for the caller",
		"backend/jcs":      "what is signed is canonical JSON",
		"backend/storage":  "definitions are rows",
		"backend/trash":    "deleted definitions are shown with what else was deleted",
	},
	"backend/trash": {
		"backend/fault":    "coded errors",
		"backend/audit":    "what is removed permanently is put on record",
		"backend/bus":      "trash.changed",
		"backend/identity": "a trash belongs to a user, and who deleted something is known",
		"backend/storage":  "deleted items are rows",
	},
	"backend/callable": {
		"backend/fault":      "a refusal is a coded error",
		"backend/audit":      "calls of this program's functions are put on record",
		"backend/permission": "a caller's authority, and the rights that a call needs",
		"backend/storage":    "a run is enqueued in the transaction of what wants it",
		"backend/schema":     "inputs are checked before a call",
		"backend/duration":   "time-outs come as milliseconds",
	},
	"backend/agent": {
		"backend/providers": "its requests, replies and prices are those of models",
	},
	"backend/cloudsync": {
		"backend/scheduler": "implements its leases with the types that it declares",
	},
	"backend/callable/netgate": {
		"backend/callable":   "its gate is that of built-ins, for addresses",
		"backend/fault":      "coded errors",
		"backend/audit":      "requests are put on record before they are sent",
		"backend/permission": "the right to reach one host",
		"backend/safehttp":   "its client asks the gate for each address",
		"backend/duration":   "pauses that services ask for",
	},
	"backend/callable/callabletest": {
		"backend/callable":   "the suite drives a registry",
		"backend/fault":      "kinds of refusals",
		"backend/permission": "a caller that holds nothing",
	},
	"backend/skills/machine": {
		"backend/skills/definition": "what a run carries out",
		"backend/skills/expr":       "conditions and templates",
	},
	"backend/vector": {
		"backend/kernel": "inner loops",
	},
	"backend/embed": {
		"backend/kernel": "inner loops",
	},
	"backend/valence": {
		"backend/kernel": "inner loops",
	},
	"backend/skills/definition": {
		"backend/skills/expr": "conditions and templates are checked by what evaluates them",
	},
	"backend/memory": {
		"backend/memory/search": "finds what memory keeps",
	},
	"backend/tools": {
		"backend/wasmtools": "runs WASM tools under the same checks, rights and limits as its own",
	},
	"backend/synthesis": {
		"backend/memory":        "reads what is stored through memory.CorpusTx",
		"backend/memory/search": "cuts texts into the words that search knows",
	},
	"backend/psychology": {
		"backend/memory":    "reads and writes the retention of memories through memory.DecayingTx and RetainTx",
		"backend/synthesis": "patterns become entries",
	},
	"backend/audio": {
		"backend/kernel": "the inner loop of the resampler",
	},
	"backend/audio/capture/capturetest": {
		"backend/audio/capture": "its microphone for tests",
	},
	"backend/audio/denoise": {
		"backend/audio": "sources of samples",
	},
	"backend/audio/capture": {
		"backend/audio": "the file format of what is recorded",
	},
	"backend/transcribe": {
		"backend/audio": "where somebody speaks",
	},
	"backend/cluster": {
		"backend/kernel": "its loops are those of the kernel",
	},
	"backend/memory/locomo": {
		"backend/memory":        "measures the real import",
		"backend/memory/search": "and the real search, with other settings of ranking",
	},
	"backend/pause": {
		"backend/bus": "background.changed",
	},
	"backend/picks": {
		"backend/fault":    "coded errors",
		"backend/identity": "a token belongs to a user",
		"backend/gateway":  "receives the body of an upload",
	},
	"backend/safehttp": {
		"backend/fault": "coded errors",
	},
	"backend/gateway": {
		"backend/duration": "deadlines are given in milliseconds",
		"backend/fault":    "kinds become codes here",
		"backend/bus":      "events become notifications here",
		"backend/identity": "sessions are made here",
		"backend/pause":    "system.status says whether background work is paused",
		"backend/storage":  "tokens and idempotency keys are rows",
		"backend/jcs":      "numbers of requests are bounded",
	},
	"backend/gateway/gatewaytest": {
		"backend/gateway":  "the suite drives a gateway",
		"backend/fault":    "kinds of answers",
		"backend/identity": "sessions of several scopes",
		"backend/storage":  "counts rows of two users",
	},
	"backend/gateway/apigen": {
		"backend/gateway": "generates from its table",
	},
	"backend/sandbox/prelude": {
		"backend/sandbox/qjs": "compiles the prelude",
	},
	"backend/sandbox": {
		"backend/sandbox/qjs":     "the engine's calls",
		"backend/sandbox/prelude": "the guest's globals",
		"backend/sandbox/linear":  "the memories of modules",
		"backend/sandbox/rootfs":  "files for untrusted code",
		"backend/sandbox/worker":  "the child process of tier t1",
		"backend/sandbox/meter":   "nothing runs unmetered",
	},
	"backend/sandbox/sandboxtest": {
		"backend/sandbox": "compiles the engine",
	},
	"backend/sandbox/qjs": {
		"backend/sandbox/linear": "the memories of its instances",
		"backend/sandbox/meter":  "its instances are stopped through the gauge",
	},
	"backend/channels/channelstest": {
		"backend/channels": "the package that it tests",
	},
	"backend/cloudsync/hubtest": {
		"backend/testkit": "a free port",
	},
	"backend/storage/storagetest": {
		"backend/storage":  "opens one for a test",
		"backend/identity": "contexts of two users",
		"backend/bus":      "listens to what a test does",
	},
}

// onlyIn lists external packages that only one place may import.
var onlyIn = map[string][]string{
	"github.com/wailsapp/wails/v2":          {"app"},
	"github.com/go-telegram/bot":            {"backend/channels"},
	"fyne.io/systray":                       {"app/tray"},
	"github.com/getlantern/systray":         {"app/tray"},
	"github.com/godbus/dbus":                {"app/tray", "app/tray/traytest"},
	"helix/frontend":                        {"", "app/cmd/helix"},
	"github.com/zalando/go-keyring":         {"backend/config"},
	"modernc.org/sqlite":                    {"backend/storage"},
	"github.com/santhosh-tekuri/jsonschema": {"backend/schema", "backend/gateway/gatewaytest"},
	"github.com/tetratelabs/wazero":         {"backend/sandbox", "backend/sandbox/qjs", "backend/sandbox/meter", "build/engines/gen", "backend/audio/denoise"},
	"github.com/landlock-lsm/go-landlock":   {"backend/sandbox/worker"},
	"github.com/jonreiter/govader":          {"backend/valence"},
	"charm.land":                            {"app/cli/tui"},
	"github.com/jackc/pgx":                  {"backend/cloudsync", "backend/cloudsync/hubtest"},
}

type listed struct {
	ImportPath string
	Dir        string
	Name       string
	Imports    []string
	GoFiles    []string
}

// list reads every package of the module for each system, so that files behind a build tag are
// included.
func list(t *testing.T) map[string]*listed {
	t.Helper()
	all := map[string]*listed{}
	for _, env := range [][2]string{{"linux", ""}, {"linux", "desktop,production,webkit2_41"}, {"windows", ""}, {"darwin", ""}} {
		cmd := exec.Command("go", "list", "-e", "-tags", env[1], "-json=ImportPath,Dir,Name,Imports,GoFiles", "./...")
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "GOOS="+env[0])
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", env[0], err)
		}
		dec := json.NewDecoder(strings.NewReader(string(out)))
		for {
			var p listed
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if have := all[p.ImportPath]; have != nil {
				have.Imports = append(have.Imports, p.Imports...)
				have.GoFiles = append(have.GoFiles, p.GoFiles...)
				continue
			}
			all[p.ImportPath] = &p
		}
	}
	return all
}

func short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, "helix"), "/")
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for path, p := range list(t) {
		from := short(path)
		level, ok := levels[from]
		if !ok {
			t.Errorf("package %s has no level: add it to levels in imports_test.go", path)
			continue
		}
		slices.Sort(p.Imports)
		for _, imp := range slices.Compact(p.Imports) {
			for prefix, places := range onlyIn {
				if (imp == prefix || strings.HasPrefix(imp, prefix+"/")) && !slices.Contains(places, from) {
					t.Errorf("%s imports %s, which belongs to %v alone", path, imp, places)
				}
			}
			if imp != "helix" && !strings.HasPrefix(imp, "helix/") {
				continue
			}
			to := short(imp)
			switch l := levels[to]; {
			case l < level:
			case l == level && sideways[from][to] != "":
			case l == level:
				t.Errorf("%s imports %s of its own level: add it to sideways and say why, or move the code", path, imp)
			default:
				t.Errorf("%s imports %s, which is above it", path, imp)
			}
		}
	}
}

func TestEachPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for path, p := range list(t) {
		found := false
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Error(err)
				continue
			}
			text := f.Doc.Text()
			found = found || strings.HasPrefix(text, "Package "+p.Name+" ") || (p.Name == "main" && strings.HasPrefix(text, "Command "))
		}
		if !found {
			t.Errorf("%s has no comment that begins with \"Package %s …\" or \"Command …\"", path, p.Name)
		}
	}
}
