package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/safehttp"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

const killEnv = "HELIX_AGENT_CHILD"

// killSetup is shared by the test and the processes that it kills.
type killSetup struct {
	Path, URL string
	First     uuid.UUID // an earlier turn, after which the window is full
	Turn      uuid.UUID
	DieAt     int // crash point at which the process ends; 0: none
}

func TestMain(m *testing.M) {
	if text := os.Getenv(killEnv); text != "" {
		var k killSetup
		err := json.Unmarshal([]byte(text), &k)
		if err == nil {
			err = k.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// allowed is the permission gate with every call allowed.
type allowed struct{ *permission.Service }

func (allowed) Decide(context.Context, permission.Request) (permission.Decision, error) {
	return permission.Decision{Effect: permission.Allow}, nil
}

// run works on the turn until it ends or the process dies.
func (k killSetup) run() error {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	root := &storagetest.Root{Key: bytes.Repeat([]byte{7}, storage.RootKeySize)}
	events := bus.New()
	db, err := storage.Open(context.Background(), storage.Options{Path: k.Path, Keys: storage.NewKeys(root), Bus: events, Logger: quiet})
	if err != nil {
		return err
	}
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Session: uuid.New()})
	gate := allowed{permission.New(db, events, permission.Options{Logger: quiet})}
	reg, probes := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	reg.Add(probes)
	for name, effects := range map[string]callable.Effects{"probe.read": {ReadOnly: true}, "probe.foreign": {ReadOnly: true, OpenWorld: true}, "probe.put": {Idempotent: true}, "probe.post": {}} {
		probes.Add(callable.Func{Info: callable.Info{Name: name, Effects: effects, Untrusted: name == "probe.foreign"}, Run: func(_ context.Context, r callable.Request) (any, error) {
			resp, err := http.PostForm(k.URL+"/effect", url.Values{"name": {name}, "key": {r.Key}})
			if err != nil {
				return nil, err
			}
			return "done", resp.Body.Close()
		}})
	}
	ledger := NewLedger(db, events)
	models, err := providers.New(db, providers.ServiceOptions{HTTP: safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }}), Meter: ledger, Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := models.Set(ctx, providers.SetParams{Name: "local", Entry: providers.Entry{Type: providers.WireChat, BaseURL: k.URL}}); err != nil {
		return err
	}
	if _, err := models.SetRole(ctx, providers.SetRoleParams{Role: providers.RoleChat, Chain: []providers.ModelRef{"local/one"}}); err != nil {
		return err
	}
	s := New(db, events, Options{Models: models, Gate: gate, Callables: reg, Ledger: ledger, Logger: quiet})
	gate.Register(string(Kind), s, nil)
	gate.RegisterAnswerer(string(Kind), s.Answer)
	var session uuid.UUID
	switch list, err := s.List(ctx, ListParams{}); {
	case err != nil:
		return err
	case len(list.Sessions) == 0:
		made, err := s.Create(ctx, CreateParams{})
		if err != nil {
			return err
		}
		session = made.Session.ID
	default:
		session = list.Sessions[0].ID
	}
	var mu sync.Mutex
	points := 0
	s.crashPoint = func() {
		mu.Lock()
		defer mu.Unlock()
		if points++; points == k.DieAt {
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			select {}
		}
	}
	go s.Run(ctx) //nolint:errcheck // the turn below shows the result
	if _, err := s.Send(ctx, SendParams{SessionID: session, Text: "Hello", TurnID: &k.First}); err != nil {
		return err
	}
	for ended := false; !ended; {
		got, err := s.Wait(ctx, WaitParams{TurnID: k.First, WaitMs: 1000})
		if err != nil {
			return err
		}
		ended = got.Turn.FinishedAt != nil
	}
	if _, err := s.Send(ctx, SendParams{SessionID: session, Text: "Do it", TurnID: &k.Turn}); err != nil {
		return err
	}
	for {
		got, err := s.Wait(ctx, WaitParams{TurnID: k.Turn, WaitMs: 10})
		if err != nil {
			return err
		}
		if got.Turn.FinishedAt != nil {
			break
		}
		for _, id := range got.Turn.Approvals {
			ap, err := gate.GetApproval(ctx, permission.GetApprovalParams{ID: id})
			if err != nil {
				return err
			}
			_, _ = gate.AnswerApproval(ctx, permission.AnswerParams{ID: id, Decision: "approve", Choice: choiceHappened, DefinitionHash: ap.DefinitionHash}) // it may already be answered
		}
	}
	replay, err := s.Replay(ctx, ReplayParams{SessionID: session})
	if err != nil {
		return err
	}
	tree, err := s.Tree(ctx, SessionParams{session})
	if err != nil {
		return err
	}
	for _, n := range tree.Nodes {
		if r, err := s.Replay(ctx, ReplayParams{SessionID: n.SessionID}); err != nil || !r.Identical {
			return fmt.Errorf("replay of the subagent: %+v, %w", r, err)
		}
	}
	spent, err := ledger.List(ctx, LedgerParams{Limit: 1000})
	if err != nil {
		return err
	}
	got, err := s.turn(ctx, db.LocalUser().ID, k.Turn)
	if err != nil {
		return err
	}
	mu.Lock()
	l, err := s.session(ctx, session)
	if err != nil {
		return err
	}
	out := map[string]any{"points": points, "dropped": l.state.Dropped, "untrusted": l.state.Untrusted, "turn": got, "replay": replay, "rows": spent.Rows, "tree": tree}
	mu.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return err
	}
	return errors.Join(s.Close(), db.Close())
}

// outside is the world that the killed processes act on: a stateless model, and effects that are
// counted.
type outside struct {
	mu      sync.Mutex
	served  int
	effects map[string]int
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.URL.Path == "/effect" {
		o.effects[r.PostFormValue("name")+" "+r.PostFormValue("key")]++
		return
	}
	var q struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.served++
	results := 0
	for _, m := range q.Messages {
		if m.Role == "tool" {
			results++
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(v any) {
		raw, _ := json.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", raw)
		w.(http.Flusher).Flush()
	}
	system, last, prompt := fmt.Sprint(q.Messages[0].Content), fmt.Sprint(q.Messages[len(q.Messages)-1].Content), 1000
	calls := map[int][]string{0: {"probe_read", "probe_foreign", delegateName, "probe_put"}, 4: {"probe_post"}, 5: {"probe_put", "probe_post"}}[results]
	switch {
	case strings.Contains(system, "Write one summary"):
		calls = nil
	case results == 0 && strings.Contains(last, "Hello"):
		calls, prompt = nil, 120_000 // so that the next turn has to make room first
	}
	if strings.Contains(fmt.Sprint(q.Messages[0].Content), subagentRules) {
		calls = map[int][]string{0: {"probe_put"}, 1: {"probe_post"}}[results]
	}
	for i, name := range calls {
		args := fmt.Sprintf(`{"n":%d}`, i)
		if name == delegateName {
			args = `{"goal":"Do a part","available_tools":["probe_put","probe_post"]}`
		}
		send(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("c%d_%d", results, i), "function": map[string]any{"name": name, "arguments": args}}}}}}})
	}
	reason := "tool_calls"
	if len(calls) == 0 {
		reason = "stop"
		for range 20 {
			send(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": "word "}}}})
		}
	}
	send(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}}, "usage": map[string]any{"prompt_tokens": prompt, "completion_tokens": 50}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// child starts a process with the setup. If kill is not 0, the process is killed after that time.
func (k killSetup) child(t *testing.T, kill time.Duration) (out map[string]json.RawMessage, died bool) {
	t.Helper()
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), killEnv+"="+string(text), "GOCOVERDIR="+t.TempDir())
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if kill > 0 {
		time.AfterFunc(kill, func() { _ = cmd.Process.Kill() })
	}
	if err := cmd.Wait(); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() == 3 {
			t.Fatal(err)
		}
		return nil, true
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	return out, false
}

// killedTurn runs a turn with kills at the given crash points, or random kills at any moment, and
// checks the state after the turn has ended. It returns the number of crash points of the last process,
// and of the random kills that met a living one.
func killedTurn(t *testing.T, points []int, random int) (total, killed int) {
	t.Helper()
	seen := &outside{effects: map[string]int{}}
	web := httptest.NewServer(seen)
	defer web.Close()
	path := filepath.Join(storagetest.Dir(t), "helix.db")
	storagetest.Blank(t, path)
	k := killSetup{Path: path, URL: web.URL, First: uuid.New(), Turn: uuid.New()}
	for _, at := range points {
		k.DieAt = at
		k.child(t, 0)
	}
	k.DieAt = 0
	for range random {
		if _, died := k.child(t, time.Duration(20+rand.IntN(180))*time.Millisecond); !died {
			break
		}
		killed++
	}
	out, died := k.child(t, 0)
	if died {
		t.Fatal("the process ended by itself")
	}
	var turn Turn
	var replay ReplayResult
	var rows []LedgerRow
	var tree TreeResult
	var dropped int
	var untrusted bool
	if err := errors.Join(json.Unmarshal(out["dropped"], &dropped), json.Unmarshal(out["untrusted"], &untrusted), json.Unmarshal(out["tree"], &tree), json.Unmarshal(out["points"], &total), json.Unmarshal(out["turn"], &turn), json.Unmarshal(out["replay"], &replay), json.Unmarshal(out["rows"], &rows)); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("killed at %v and %d times at random", points, random)
	if turn.State != Completed || turn.StopReason != StopAnswer {
		t.Errorf("%s: %+v %+v", name, turn, turn.Error)
	}
	if !replay.Identical {
		t.Errorf("%s: replay: %+v", name, replay.FirstDifference)
	}
	if dropped != 1 || !untrusted {
		t.Errorf("%s: %d exchanges left the request, marked as from outside: %v", name, dropped, untrusted)
	}
	if len(rows) < seen.served {
		t.Errorf("%s: %d calls of the model are in the ledger, %d were served", name, len(rows), seen.served)
	}
	if i := slices.IndexFunc(rows, func(r LedgerRow) bool { return r.State == stateReserved }); i >= 0 {
		t.Errorf("%s: a call is neither settled nor lost: %+v", name, rows[i])
	}
	puts := 0
	for key, n := range seen.effects {
		switch {
		case strings.HasPrefix(key, "probe.post ") && n > 1:
			t.Errorf("%s: %s happened %d times", name, key, n)
		case strings.HasPrefix(key, "probe.put "):
			puts++ // one effect per key
		}
	}
	if puts != 3 {
		t.Errorf("%s: %d keys of an idempotent call, want 3", name, puts)
	}
	if len(tree.Nodes) != 1 || tree.Nodes[0].StopReason != StopAnswer || tree.Nodes[0].Steps != 3 {
		t.Errorf("%s: subagents: %+v", name, tree.Nodes)
	}
	return total, killed
}

// Whether a process is killed at any commit, once or twice, or at any moment, nothing happens twice,
// the ledger loses no money, and the turn ends with its answer.
func TestKill(t *testing.T) {
	testkit.SkipRaced(t, "other processes, which are not built with the race detector in mind")
	total, _ := killedTurn(t, nil, 0)
	if total < 10 {
		t.Fatalf("%d crash points", total)
	}
	step, twice, random := 5, 3, 4 // every fifth point, of which chance chooses the first
	if os.Getenv("HELIX_LONG") != "" {
		step, twice, random = 1, 200, 1000
	}
	for at := 1 + rand.IntN(step); at <= total; at += step {
		killedTurn(t, []int{at}, 0)
	}
	for range twice {
		killedTurn(t, []int{1 + rand.IntN(total), 1 + rand.IntN(total/2)}, 0)
	}
	turns, moments := 0, 0
	for ; moments < random && turns < 2*random; turns++ { // on a fast machine a turn may end first
		_, killed := killedTurn(t, nil, 3)
		moments += killed
	}
	t.Logf("%d crash points, one of %d; %d pairs; %d random kills in %d turns", total, step, twice, moments, turns)
}
