package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/permission"
)

// TestEveryAnnouncedRunPublishesItsEnd checks that clients that were told that a run waits are also told, once,
// that it has ended, even if it is refused before it starts.
func TestEveryAnnouncedRunPublishesItsEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made := b.create(t, CreateParams{Name: "Foreign", Code: "return 1"})
	foreign := b.add2(t, lifecycle.Text(b.export(t, false, made.ID)), lifecycle.Rename).Tools[0].ID
	if _, err := b.SetEnabled(b.ctx, SetEnabledParams{ToolID: foreign, Enabled: true}); err != nil {
		t.Fatal(err)
	}
	stored := b.create(t, CreateParams{Code: "return await helix.state.get('a')", Capabilities: []string{"state"}})

	var mu sync.Mutex
	states := map[uuid.UUID][]string{}
	cancel := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e Execution) {
		mu.Lock()
		defer mu.Unlock()
		states[e.ExecutionID] = append(states[e.ExecutionID], e.State)
	})
	defer cancel()
	asked := make(chan uuid.UUID, 10)
	stop := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e permission.ApprovalChanged) {
		if e.Status == "pending" {
			asked <- e.ID
		}
	})
	defer stop()
	var refusing sync.WaitGroup
	defer refusing.Wait()
	defer close(asked)
	refusing.Go(func() {
		for id := range asked {
			g, err := b.perm.GetApproval(b.ctx, permission.GetApprovalParams{ID: id})
			if err == nil {
				_, err = b.perm.AnswerApproval(b.ctx, permission.AnswerParams{ID: id, Decision: "deny", DefinitionHash: g.DefinitionHash})
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	for name, p := range map[string]ExecuteParams{
		"draft":            {Code: "return await helix.state.get('a')", Draft: &Draft{Capabilities: []string{"state"}}},
		"stored":           {ToolID: &stored.ID},
		"untrusted import": {ToolID: &foreign},
	} {
		p.Interactive = true
		if _, err := b.Execute(b.ctx, p); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(states) != 3 {
		t.Errorf("%d runs were heard of: %v", len(states), states)
	}
	for id, s := range states {
		if strings.Join(s, " ") != "waiting failure" {
			t.Errorf("run %s: %v", id, s)
		}
	}
}

func TestPercentilesAreNearestRanks(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		ms       []float64
		p50, p95 float64
	}{
		{[]float64{7}, 7, 7},
		{[]float64{26, 119}, 26, 119},
		{[]float64{1, 2, 3}, 2, 3},
		{hundred, 50, 95},
		{hundred[:20], 10, 19},
	} {
		if got50, got95 := percentile(c.ms, 50), percentile(c.ms, 95); got50 != c.p50 || got95 != c.p95 {
			t.Errorf("%d values: p50 %v p95 %v, want %v %v", len(c.ms), got50, got95, c.p50, c.p95)
		}
	}
}

func TestDeclaredLocalhostCoversTheHost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		code, capability string
		warns            bool
	}{
		{`return await helix.fetch("http://localhost:8080/x")`, "network:localhost(8080)", false},
		{`return await helix.fetch("http://127.0.0.1:8080/x")`, "network:localhost(8080)", false},
		{`return await helix.fetch("http://[::1]:8080/x")`, "network:localhost(8000-9000)", false},
		{"return await helix.fetch(`http://localhost:${params.port}/x`)", "network:localhost(8080)", false},
		{`return await helix.fetch("http://localhost/x")`, "network:localhost(80)", false},
		{`return await helix.fetch("http://LOCALHOST:8080/x")`, "network:localhost(8080)", false},
		{`return await helix.fetch("http://localhost:9090/x")`, "network:localhost(8080)", true},
		{`return await helix.fetch("http://localhost:8080/x")`, "network:https(example.com)", true},
	} {
		r, err := b.Validate(b.ctx, ValidateParams{Code: c.code, Capabilities: []string{c.capability}})
		if err != nil {
			t.Fatal(err)
		}
		warns := slices.ContainsFunc(r.Warnings, func(p Problem) bool { return p.Code == "host_without_capability" })
		if warns != c.warns {
			t.Errorf("%s with %s: %+v", c.code, c.capability, r.Warnings)
		}
	}
}

func TestListFiltersSuspended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	calm := b.create(t, CreateParams{Name: "calm", Code: "return 1"})
	changed := b.granted(t, "changed")
	yes, no := true, false
	list := func(want *bool) []string {
		r, err := b.List(b.ctx, ListParams{Suspended: want, Sort: SortName})
		if err != nil || r.Total != len(r.Tools) {
			t.Fatalf("%+v %v", r, err)
		}
		names := []string{}
		for _, x := range r.Tools {
			names = append(names, x.Name)
		}
		return names
	}
	if got := list(&yes); len(got) != 0 {
		t.Errorf("nothing is suspended yet: %v", got)
	}
	b.update(t, changed, `{"code":"return await helix.state.get('b')"}`)
	if got := list(&yes); !slices.Equal(got, []string{"changed"}) {
		t.Errorf("suspended: %v", got)
	}
	if got := list(&no); !slices.Equal(got, []string{calm.Name}) {
		t.Errorf("not suspended: %v", got)
	}
	if got := list(nil); len(got) != 2 {
		t.Errorf("all: %v", got)
	}
}

func TestExportToAFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "out", Code: "return 1"})
	dir := t.TempDir()
	path := filepath.Join(dir, "out.helix-tool.json")
	r, err := b.Export(b.ctx, ExportParams{ToolIDs: []uuid.UUID{tool.ID}, Path: path})
	if err != nil || r.Path != path {
		t.Fatalf("%+v %v", r, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", fi.Mode(), err)
	}
	if !json.Valid(text) {
		t.Errorf("not JSON: %s", text)
	}
	if rev, err := b.Import(b.ctx, ImportParams{Bundle: text}); err != nil || len(rev.Items) != 1 || rev.Items[0].DefinitionHash != tool.DefinitionHash {
		t.Errorf("read back: %+v %v", rev, err)
	}
	reader, _ := identity.From(b.ctx)
	reader.Scopes = identity.Read | identity.Write
	for name, c := range map[string]struct {
		path string
		as   identity.Identity
		kind fault.Kind
	}{
		"there already": {path, identity.Identity{}, fault.Conflict},
		"relative":      {"out.json", identity.Identity{}, fault.Invalid},
		"no folder":     {filepath.Join(dir, "no", "such"), identity.Identity{}, fault.Invalid},
		"no admin":      {filepath.Join(dir, "b.json"), reader, fault.Denied},
	} {
		ctx := b.ctx
		if c.as.User != uuid.Nil {
			ctx = identity.With(ctx, c.as)
		}
		if _, err := b.Export(ctx, ExportParams{ToolIDs: []uuid.UUID{tool.ID}, Path: c.path}); fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".tools*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestToolsListTokenCost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tool := b.create(t, CreateParams{Name: "Cost", Description: "Twelve bytes", Code: "return 1"})
	r, err := b.Get(b.ctx, GetParams{ToolID: tool.ID})
	if err != nil {
		t.Fatal(err)
	}
	want := (len("tool_cost") + len("Twelve bytes") + len(r.Tool.Parameters) + 3) / 4
	fs, err := b.Functions(b.ctx)
	if err != nil || r.Tool.ApproxTokens != want || len(fs) != 1 || fs[0].Tokens != want {
		t.Errorf("%d %+v %v, want %d", r.Tool.ApproxTokens, fs, err, want)
	}
}
