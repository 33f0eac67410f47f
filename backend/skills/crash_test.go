package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/permission"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// The crash test runs a skill with steps of all kinds in processes that are killed: at each
// recorded event, directly after an effect, and at random moments. A server in the test process
// counts the effects.

const crashSkill = `{"name":"mixed","outputMapping":"$.s20","steps":[
	{"stepId":"s01","toolType":"transform","value":{"list":[1,2,3],"go":true}},
	{"stepId":"s02","toolType":"custom","toolName":"side","inputMapping":{"x":"$.s01.list"}},
	{"stepId":"s03","toolType":"custom","toolName":"idem","parameters":{"x":3}},
	{"stepId":"s04","toolType":"custom","toolName":"read","parameters":{"x":4}},
	{"stepId":"s05","toolType":"mcp","toolName":"far.side","parameters":{"x":5}},
	{"stepId":"s06","toolType":"wasm","toolName":"idem","parameters":{"x":6}},
	{"stepId":"s07","toolType":"builtin","toolName":"time.now"},
	{"stepId":"s08","toolType":"builtin","toolName":"wait","parameters":{"ms":3}},
	{"stepId":"s09","toolType":"branch","cases":[{"when":"$.s01.go == true","steps":[{"stepId":"s09a","toolType":"custom","toolName":"side"},{"stepId":"s09b","toolType":"transform","value":9}]}],
		"else":[{"stepId":"s09c","toolType":"custom","toolName":"side"}]},
	{"stepId":"s10","toolType":"map","items":"$.s01.list","concurrency":3,"steps":[
		{"stepId":"s10a","toolType":"custom","toolName":"side","inputMapping":{"x":"$.item"}},{"stepId":"s10b","toolType":"custom","toolName":"idem","inputMapping":{"x":"$.s10a"}}]},
	{"stepId":"s11","toolType":"skill","toolName":"inner"},
	{"stepId":"s12","toolType":"approval","title":"Go on?"},
	{"stepId":"s13","toolType":"custom","toolName":"flaky","errorHandling":"retry","maxRetries":3,"retryUnsafe":true,"condition":"$.input.flaky == true"},
	{"stepId":"s14","toolType":"custom","toolName":"side","condition":"$.s01.go == false"},
	{"stepId":"s15","toolType":"custom","toolName":"side"},
	{"stepId":"s16","toolType":"custom","toolName":"side"},
	{"stepId":"s17","toolType":"custom","toolName":"fails","errorHandling":"skip"},
	{"stepId":"s18","toolType":"custom","toolName":"side"},
	{"stepId":"s19","toolType":"custom","toolName":"idem"},
	{"stepId":"s20","toolType":"transform","value":{"n":"$.s10[0]","m":"$.s11"}}
]}`

const crashInner = `{"name":"inner","steps":[{"stepId":"i1","toolType":"custom","toolName":"side"},{"stepId":"i2","toolType":"custom","toolName":"idem"}]}`

const crashEnv = "HELIX_SKILLS_CRASH"

// crashConfig is the input of a process of the crash test.
type crashConfig struct {
	Path, Server string
	AtEvent      int64 // killed when it has recorded that many events; 0: never
	InCall       int64 // killed after that many effects, before their outcome is known
	Start        bool  // starts a run
	Flaky        bool  // with a step that fails once, and a back-off
}

func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	panic(fmt.Sprint("still alive: ", err))
}

// effectClient calls the server that counts effects.
type effectClient struct {
	kind callable.Kind
	d    *crashConfig
	done *atomic.Int64
}

func (o *effectClient) Kind() callable.Kind { return o.kind }

func (o *effectClient) Find(_ context.Context, id, name string) ([]callable.Info, error) {
	if id != "" {
		name = id
	}
	return []callable.Info{{
		Ref: callable.Ref{Kind: o.kind, ID: name}, Name: name, Hash: "h-" + name, Input: json.RawMessage(`{"type":"object"}`),
		Effects: callable.Effects{ReadOnly: name == "read", Idempotent: name == "idem"},
	}}, nil
}

func (o *effectClient) List(context.Context) ([]callable.Info, error) { return nil, nil }

func (o *effectClient) Rights(context.Context, callable.Info, json.RawMessage) (permission.PreviewResult, error) {
	return permission.NewPreview(), nil
}

func (o *effectClient) Call(ctx context.Context, ref callable.Ref, c Call) (callable.Result, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.d.Server+"/"+ref.ID, strings.NewReader(c.Caller.Run.String()+" "+c.Caller.Step+" "+c.Key+" "+strconv.Itoa(c.Attempt)))
	if err != nil {
		return callable.Result{}, err
	}
	req.Header.Set("Idempotency-Key", c.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return callable.Result{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return callable.Result{}, err
	}
	if o.done.Add(1) == o.d.InCall {
		die()
	}
	if res.StatusCode != http.StatusOK {
		return callable.Result{}, fmt.Errorf("status %d", res.StatusCode)
	}
	return callable.Result{Output: text}, nil
}

// TestCrashProcess is the process of TestCrash; otherwise it does nothing.
func TestCrashProcess(t *testing.T) {
	text := os.Getenv(crashEnv)
	if text == "" {
		t.Skip("a part of another test")
	}
	var d crashConfig
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	db := storagetest.OpenAt(t, d.Path, &storagetest.Root{Key: make([]byte, storage.RootKeySize)})
	ctx := storagetest.Ctx(t, db)
	defer http.DefaultClient.CloseIdleConnections()
	var events atomic.Int64
	bus.Subscribe(db.Bus(), func(uuid.UUID, RunEvent) {
		if events.Add(1) == d.AtEvent {
			die()
		}
	})
	done := &atomic.Int64{}
	list, closing := Builtins(BuiltinOptions{})
	defer closing()
	reg := offering(nil, list...)
	for _, kind := range []callable.Kind{callable.Tool, callable.WASM, "mcp"} {
		reg.Add(&effectClient{kind, &d, done})
	}
	s := New(db, Options{Callables: reg, Rand: func() float64 { return 0 }})
	defer s.Close()
	run, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(run) }()
	defer func() {
		stop()
		<-ended
	}()
	if d.Start {
		if _, err := s.ListComposite(ctx, ListParams{}); err != nil {
			t.Fatal(err)
		}
		var outer uuid.UUID
		found, err := s.ListComposite(ctx, ListParams{Query: "mixed"})
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Skills) == 0 {
			if _, err := s.CreateComposite(ctx, SaveParams{Skill: json.RawMessage(crashInner)}); err != nil {
				t.Fatal(err)
			}
			m, err := s.CreateComposite(ctx, SaveParams{Skill: json.RawMessage(crashSkill)})
			if err != nil || !m.Valid {
				t.Fatal(m, err)
			}
			outer = m.SkillID
		} else {
			outer = found.Skills[0].SkillID
		}
		if _, err := s.ExecuteComposite(ctx, ExecuteParams{SkillID: &outer, Input: json.RawMessage(fmt.Sprintf(`{"flaky":%v}`, d.Flaky)), Async: true}); err != nil {
			t.Fatal(err)
		}
	}
	limit := time.Now().Add(4 * time.Minute)
	for !settled(t, s, db, ctx) {
		if time.Now().After(limit) {
			t.Fatalf("the runs do not come to rest: %s", restless(t, s, db, ctx))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// settled answers approvals, and reports whether all runs have ended or wait because of an
// unknown outcome.
func settled(t *testing.T, s *Service, db *storage.DB, ctx context.Context) bool {
	t.Helper()
	var open []uuid.UUID
	err := db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT id FROM composite_skill_executions WHERE status IN ('queued', 'running', 'waiting')`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			open = append(open, id)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	rest := true
	for _, id := range open {
		x, err := s.GetExecution(ctx, RunParams{ExecutionID: id})
		if err != nil {
			t.Fatal(err)
		}
		if x.Status == machine.Waiting && x.WaitReason == machine.WaitApproval && len(x.Waits) == 1 {
			_, _ = s.Answer(ctx, AnswerParams{ExecutionID: id, StepPath: x.Waits[0].StepPath, Decision: machine.Approve})
			rest = false
			continue
		}
		if x.WaitReason == WaitQuarantined {
			_, _ = s.Answer(ctx, AnswerParams{ExecutionID: id, Decision: machine.TryAgain})
			rest = false
			continue
		}
		rest = rest && x.Status == machine.Waiting && x.WaitReason == machine.WaitUnknown
	}
	return rest
}

// restless describes the unfinished runs.
func restless(t *testing.T, s *Service, db *storage.DB, ctx context.Context) (out string) {
	t.Helper()
	list, err := s.History(ctx, HistoryParams{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list.Executions {
		x, err := s.GetExecution(ctx, RunParams{ExecutionID: h.ExecutionID})
		if err != nil {
			t.Fatal(err)
		}
		if final(x.Status) || x.WaitReason == machine.WaitUnknown {
			continue
		}
		out += fmt.Sprintf("\n%s %s %s: %d events,", x.ExecutionID, x.Status, x.WaitReason, x.LastSeq)
		for _, r := range x.StepResults {
			if r.Status == machine.Running || r.Status == machine.Waiting {
				out += fmt.Sprintf(" %s[%s] %s", r.StepPath, r.Iteration, r.Status)
			}
		}
		for _, w := range x.Waits {
			out += fmt.Sprintf(" asks %s %s until %v (now %s)", w.StepPath, w.Request.Reason, w.Until, s.now())
		}
	}
	return out
}

// effectServer is the server that counts effects.
type effectServer struct {
	mu    sync.Mutex
	side  map[string]int    // by run, step and iteration
	idem  map[string]string // outcome by key
	calls int
}

func (c *effectServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	parts := strings.Split(string(text), " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	out := strconv.Itoa(c.calls)
	switch name := strings.TrimPrefix(r.URL.Path, "/"); name {
	case "side", "far.side":
		c.side[strings.Join(parts[:3], " ")]++
	case "idem":
		key := r.Header.Get("Idempotency-Key")
		if c.idem[key] == "" {
			c.idem[key] = out
		}
		out = c.idem[key]
	case "flaky":
		if attempt, _ := strconv.Atoi(parts[3]); attempt < 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "fails":
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write([]byte(out))
}

func TestCrash(t *testing.T) {
	t.Parallel()
	if os.Getenv(crashEnv) != "" {
		t.Skip("a process of the test")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a killed process cannot be told from a failed one here")
	}
	testkit.SkipRaced(t, "a process of the test has no time for anything")
	outside := &effectServer{side: map[string]int{}, idem: map[string]string{}}
	server := httptest.NewServer(outside)
	defer server.Close()
	path := filepath.Join(storagetest.Dir(t), "helix.db")
	storagetest.Blank(t, path)
	base := crashConfig{Path: path, Server: server.URL}
	process := func(d crashConfig, after time.Duration) {
		t.Helper()
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd := exec.Command(os.Args[0], "-test.run=^TestCrashProcess$", "-test.timeout=5m")
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), crashEnv+"="+string(text)), &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if after > 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		err = cmd.Wait()
		if killed := err != nil && strings.Contains(err.Error(), "killed"); err != nil && !killed {
			t.Fatalf("%+v: %v\n%s", d, err, out.String())
		}
	}
	start := base
	start.Start, start.Flaky = true, true
	begun := time.Now()
	process(start, 0) // without a crash, to count the events and measure the time
	whole := time.Since(begun)
	db := storagetest.OpenAt(t, path, &storagetest.Root{Key: make([]byte, storage.RootKeySize)})
	var events int64
	if err := db.Read(context.Background(), func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM composite_skill_events`).Scan(&events)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if events < 60 {
		t.Fatalf("only %d events", events)
	}
	boundaries, effects, moments := 9, 6, 4
	if os.Getenv("HELIX_LONG") != "" {
		boundaries, effects, moments = int(events), 17, 1000
	}
	for i := range boundaries {
		d := start
		d.Flaky = i%5 == 0
		d.AtEvent = 1 + int64(i)*(events-1)/int64(max(boundaries-1, 1))
		process(d, 0)
	}
	for i := range effects {
		d := start
		d.Flaky = i%5 == 0
		d.InCall = int64(1 + i*17/effects)
		process(d, 0)
	}
	for i := range moments {
		start.Flaky = i%5 == 0
		process(start, time.Duration(rand.Int64N(int64(whole)+1)))
	}
	process(base, 0) // and finally one that is not killed
	checkCrash(t, path, outside)
}

// checkCrash checks the state of all runs.
func checkCrash(t *testing.T, path string, outside *effectServer) {
	t.Helper()
	db := storagetest.OpenAt(t, path, &storagetest.Root{Key: make([]byte, storage.RootKeySize)})
	ctx := storagetest.Ctx(t, db)
	s := New(db, Options{})
	defer s.Close()
	type end struct {
		id             uuid.UUID
		status, reason string
	}
	var ends []end
	if err := db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT id, status, coalesce(wait_reason, error_message, '') FROM composite_skill_executions`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e end
			if err := rows.Scan(&e.id, &e.status, &e.reason); err != nil {
				return err
			}
			ends = append(ends, e)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range ends {
		count[e.status+" "+e.reason]++
		if e.status != "completed" && (e.status != "waiting" || e.reason != machine.WaitUnknown) {
			t.Errorf("run %s: %s %s", e.id, e.status, e.reason)
		}
		r, err := s.Replay(ctx, RunParams{ExecutionID: e.id})
		if err != nil || !r.Identical {
			t.Errorf("replay of %s: %+v %v", e.id, r.FirstDifference, err)
		}
	}
	if count["completed "] == 0 || count["waiting unknown_outcome"] == 0 {
		t.Errorf("both ends must occur: %v", count)
	}
	outside.mu.Lock()
	defer outside.mu.Unlock()
	for at, n := range outside.side {
		if n != 1 {
			t.Errorf("%s happened %d times", at, n)
		}
	}
	if err := db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT json_extract(i.payload, '$.idempotencyKey'), json_extract(o.payload, '$.output') FROM composite_skill_events i
			JOIN composite_skill_events o ON o.execution_id = i.execution_id AND o.step_path = i.step_path AND o.iteration = i.iteration AND o.type = 'step.outcome'
			WHERE i.type = 'step.intent' AND json_extract(i.payload, '$.toolHash') = 'h-idem'`)
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			var key, out string
			if err := rows.Scan(&key, &out); err != nil {
				return err
			}
			if n++; outside.idem[key] != out {
				t.Errorf("the outcome of %s is %s, not %s", key, out, outside.idem[key])
			}
		}
		if n == 0 {
			t.Error("no idempotent call")
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs: %v; %d calls", len(ends), count, outside.calls)
}
