package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/sandbox"
	"helix/backend/wasmtools"
)

type sandboxCmd struct {
	Status sandboxStatusCmd `cmd:"" help:"Show the isolation on this computer."`
	Run    sandboxRunCmd    `cmd:"" help:"Run a file once, or an installed WASM tool."`
	Verify sandboxVerifyCmd `cmd:"" help:"Inspect a WASM module."`
	Bench  sandboxBenchCmd  `cmd:"" help:"Benchmark the sandbox for a few seconds."`
}

type sandboxStatusCmd struct{}

// tierWords explain a tier, and what weakens it, to people.
var tierWords = map[string]string{
	"t0":                   "inside Helix: your own tools, and modules signed by a trusted key",
	"t1":                   "in a separate, restricted process: third-party modules",
	"not_built":            "not available in this version",
	"engine_unavailable":   "the engine is missing: run make engines",
	"landlock_unavailable": "the kernel has no Landlock",
	"bwrap_missing":        "bubblewrap is not installed",
	"bwrap_blocked":        "the system doesn't allow bubblewrap",
	"landlock_partial":     "the kernel's Landlock does not cover the network",
	"jobobject_failed":     "Windows refused a job object",
	"worker_unavailable":   "this program cannot start a separate process",
	"off":                  "turned off",
	"below_min_isolation":  "weaker than the setting sandbox.minIsolation asks for",
}

func (s *sandboxStatusCmd) Run(c *command) error {
	ready := false
	err := show(c, "sandbox.status", struct{}{}, func(r wasmtools.SandboxStatus) {
		ready = r.Ready
		state := "ready"
		if !r.Ready {
			state = "not ready: " + r.Reason
		}
		cache := fmt.Sprintf("%s in %d files", size(r.Cache.Bytes), r.Cache.Modules)
		if r.Cache.Reason != "" {
			cache = "off: " + r.Cache.Reason
		}
		c.fields(
			"state", state, "engine", strings.TrimSpace(r.Engine.Name+" "+r.Engine.Version), "sha256", r.Engine.SHA256,
			"cpu", map[string]string{"thread": "measured by the system, per run", "fuel": "estimated from the work done"}[r.CPUMeter],
			"memory", map[string]string{"cow": "copy-on-write memory for each run", "copy": "a full memory copy for each run"}[r.Snapshot],
			"pool", fmt.Sprintf("%d ready, %d running, %d waiting, %d discarded", r.Pool.Idle, r.Pool.Busy, r.Pool.Queued, r.Pool.Discarded),
			"cache", cache, "third-party modules", r.Isolation+" (at least "+r.MinIsolation+")",
		)
		fmt.Fprintln(c.env.Stdout)
		rows := [][]string{}
		for _, t := range r.Tiers {
			state := "available"
			if !t.Available {
				state = "not available"
			}
			notes := []string{}
			for _, w := range t.Reasons {
				notes = append(notes, first(tierWords[w], w))
			}
			rows = append(rows, []string{t.Tier, state, first(tierWords[t.Tier], ""), strings.Join(notes, "; ")})
		}
		c.table([]string{"TIER", "STATE", "WHAT RUNS THERE", "WHAT IS MISSING"}, rows)
		fmt.Fprintln(c.env.Stdout)
		rows = rows[:0]
		for _, p := range r.Profiles {
			rows = append(rows, []string{p.Name, (duration.Of(p.WallMs, time.Millisecond)).String(), (duration.Of(p.CPUMs, time.Millisecond)).String(), size(p.MemoryBytes)})
		}
		c.table([]string{"PROFILE", "TIME", "CPU", "MEMORY"}, rows)
	})
	if err == nil && !ready && !c.JSON {
		return failed{ExitCode(fault.Unavailable)}
	}
	return err
}

type sandboxRunCmd struct {
	File    string   `arg:"" help:"A .js, .ts or .wasm file, or the name or ID of an installed WASM tool."`
	Input   string   `help:"JSON, @file or -." aliases:"params" placeholder:"JSON"`
	Profile string   `help:"strict, standard, permissive or wasm."`
	Grant   []string `help:"Capability to allow, such as network:https(api.example.com); may be repeated. Needs a terminal and is recorded." placeholder:"CAP" sep:"none"`
	Tier    string   `help:"t0 runs in this process, t1 in a separate one. t0 for a module needs a terminal."`
}

type sandboxRun struct {
	Success           bool
	Output            json.RawMessage
	Error, ErrorClass string
	ErrorStack        string
	ExecutionTimeMs   float64
	CPUTimeMs         float64
	PeakMemoryBytes   int64
	HostCalls         int
	Tier, Isolation   string
	PendingApprovalID string
	Logs              []struct{ Level, Message string }
	Limits            struct{ WallMs, CPUMs, MemoryBytes int64 }
}

func (r *sandboxRunCmd) Run(c *command) error {
	c.runsCode = true
	input, err := c.input(r.Input)
	if err != nil {
		return err
	}
	code, err := readFile(r.File)
	if fault.Is(err, fault.NotFound) && filepath.Ext(r.File) == "" {
		return r.installed(c, input)
	}
	if err != nil {
		return err
	}
	kind := map[string]string{".js": "javascript", ".mjs": "javascript", ".ts": "typescript", ".wasm": "wasm"}[strings.ToLower(filepath.Ext(r.File))]
	if kind == "" {
		return fault.Invalidf("%s isn't a .js, .ts or .wasm file.", filepath.Base(r.File))
	}
	if (len(r.Grant) > 0 || r.Tier == "t0" && kind == "wasm") && !isTerminal(c.env.Stdin) {
		return fault.Deniedf("Only a person at a terminal can allow this.")
	}
	p := map[string]any{"kind": kind, "name": filepath.Base(r.File)}
	setIf(p, "profile", r.Profile)
	setIf(p, "tier", r.Tier)
	if input != nil {
		p["input"] = input
	}
	if len(r.Grant) > 0 {
		p["grants"] = r.Grant
	}
	if kind != "wasm" {
		p["code"] = string(code)
	} else if err := c.module(p, code); err != nil {
		return err
	}
	return c.finishSandbox("sandbox.run", p)
}

// installed runs an installed WASM tool by name or id.
func (r *sandboxRunCmd) installed(c *command, input json.RawMessage) error {
	if r.Profile != "" || r.Tier != "" || len(r.Grant) > 0 {
		return fault.Invalidf("An installed WASM tool has its own limits, tier and grants: leave out --profile, --tier and --grant.")
	}
	id, err := c.idOf(wasmKind, r.File, false)
	if fault.Is(err, fault.NotFound) {
		return fault.NotFoundf("No file or WASM tool is named %q.", r.File)
	}
	if err != nil {
		return err
	}
	p := map[string]any{"skillId": id}
	if input != nil {
		p["input"] = input
	}
	return c.finishSandbox("skills.execute", p)
}

// uploadPart is the maximum size in bytes of a module in one call.
const uploadPart = 6 << 20

// module adds a module to params: inline, or uploaded in parts before the call.
func (c *command) module(p map[string]any, wasm []byte) error {
	if len(wasm) <= uploadPart {
		p["wasm"] = wasm
		return nil
	}
	up := map[string]any{}
	for from := 0; ; {
		to := min(from+uploadPart, len(wasm))
		up["offset"], up["data"], up["done"] = from, wasm[from:to], to == len(wasm)
		var r struct{ UploadID, BlobSHA256 string }
		if _, err := c.call("skills.upload_wasm", up, &r); err != nil {
			return err
		}
		if r.BlobSHA256 != "" {
			p["blobSha256"] = r.BlobSHA256
			return nil
		}
		up["uploadId"], from = r.UploadID, to
	}
}

// finishSandbox makes a run and exits with its outcome: its output goes to standard output, its
// log, usage and errors to standard error.
func (c *command) finishSandbox(method string, p map[string]any) error {
	var res sandboxRun
	raw, err := c.call(method, p, &res)
	if err != nil {
		return err
	}
	for _, l := range res.Logs {
		c.say("[%s] %s", l.Level, plain(l.Message))
	}
	switch {
	case c.JSON:
		err = c.printJSON(raw)
	case res.Success:
		err = c.printJSON(res.Output)
	}
	if err != nil {
		return err
	}
	if !c.JSON {
		c.say("%s, %.1f ms, CPU %.1f of %d ms, memory %s of %s, %d host calls", res.Isolation, res.ExecutionTimeMs, res.CPUTimeMs, res.Limits.CPUMs,
			size(res.PeakMemoryBytes), size(res.Limits.MemoryBytes), res.HostCalls)
	}
	if res.Success {
		return nil
	}
	c.say("%s: %s", first(res.ErrorClass, "error"), plain(res.Error))
	for _, line := range strings.Split(strings.TrimSpace(res.ErrorStack), "\n") {
		if line != "" {
			c.say("  %s", plain(line))
		}
	}
	return failed{classExit(res.ErrorClass)}
}

type sandboxVerifyCmd struct {
	File string `arg:"" help:"A .wasm file."`
}

type wasmReport struct {
	Valid            bool
	Errors, Warnings []struct {
		Code, Message, Feature string
		Offset                 *int64
	}
	Info *struct {
		ABI              string
		Exports, Imports []string
		Memory, Tables   int64
		Size             int64
		SHA256           string
	}
	Tier, Isolation, Refused, Signer string
	Reasons                          []string
}

func (v *sandboxVerifyCmd) Run(c *command) error {
	wasm, err := readFile(v.File)
	if err != nil {
		return err
	}
	if len(wasm) == 0 {
		return fault.Invalidf("%s is empty.", filepath.Base(v.File))
	}
	p := map[string]any{}
	if err := c.module(p, wasm); err != nil {
		return err
	}
	return shown(c, "skills.validate_wasm", p, func(r wasmReport) { r.print(c) }, func(r wasmReport) int { return failIf(!r.Valid, ExitCode(fault.Invalid)) })
}

func (r *wasmReport) print(c *command) {
	verdict := "can be installed"
	if !r.Valid {
		verdict = "is rejected"
	}
	lines := []string{"module", verdict}
	if i := r.Info; i != nil {
		lines = append(lines, "abi", i.ABI, "size", size(i.Size), "sha256", i.SHA256, "memory", size(i.Memory<<16)+" at first", "tables", fmt.Sprint(i.Tables),
			"imports", first(strings.Join(i.Imports, ", "), "none"), "exports", strings.Join(i.Exports, ", "), "signer", r.Signer,
			"runs in", r.Tier+", "+r.Isolation)
		for _, w := range r.Reasons {
			lines = append(lines, "missing", first(tierWords[w], w))
		}
		lines = append(lines, "refused", r.Refused)
	}
	for _, e := range r.Errors {
		lines = append(lines, "error", e.Code+": "+e.Message)
	}
	for _, w := range r.Warnings {
		lines = append(lines, "warning", w.Code+": "+w.Message)
	}
	c.fields(lines...)
}

type sandboxBenchCmd struct{}

func (b *sandboxBenchCmd) Run(c *command) error {
	c.say("Measuring for a few seconds.")
	return show(c, "sandbox.bench", struct{}{}, func(r sandbox.BenchResult) {
		list(c, r.Rows, "", []string{"NAME", "VALUE", "WHAT IT IS"}, func(x sandbox.BenchRow) []string {
			return []string{x.Name, fmt.Sprintf("%.1f %s", x.Value, x.Unit), x.Note}
		})
		for _, s := range r.Skipped {
			c.say("skipped %s", plain(s))
		}
	})
}
