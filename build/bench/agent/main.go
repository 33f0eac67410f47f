// Command agent measures backend/agent: a turn compared with a plain HTTP client of the same server,
// ten steps with a tool, opening and searching long chats, and the ledger with a million rows. It
// prints one line per measurement: name, value, unit, ratio to the peer, peer, separated by tabs.
package main

import (
	"bufio"
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
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/providers"
	"helix/backend/safehttp"
	"helix/backend/scrub"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helixbench/figures"
)

// model is a service that calls a tool until there are enough results, and then answers.
type model struct {
	results atomic.Int64
	held    atomic.Pointer[chan struct{}] // answers wait until it is closed
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // its list of models
		http.NotFound(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	figures.Check(err)
	var q struct{ Messages []struct{ Role string } }
	figures.Check(json.Unmarshal(raw, &q))
	n := int64(0)
	for i := len(q.Messages) - 1; i >= 0 && q.Messages[i].Role != "user"; i-- {
		if q.Messages[i].Role == "tool" {
			n++
		}
	}
	if held := m.held.Load(); held != nil {
		<-*held
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if n < m.results.Load() {
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c%d","function":{"name":"probe_read","arguments":"{\"n\":%d}"}}]}}]}`+"\n\n", n, n)
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1000,"completion_tokens":5}}`+"\n\n")
	} else {
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"Yes."}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":5}}`+"\n\n", len(raw)/4)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func quantile(list []float64, q float64) float64 {
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

// timed runs fn n times and returns the milliseconds of each run.
func timed(n int, fn func(i int)) (ms []float64) {
	for i := range n {
		t := time.Now()
		fn(i)
		ms = append(ms, time.Since(t).Seconds()*1000)
	}
	return ms
}

// cpu runs fn n times and returns the processor time of this process for each run, in milliseconds.
// Where both sides only compute, that is more reliable than wall-clock time on a shared machine.
func cpu(n int, fn func(i int)) (ms []float64) {
	now := func() float64 {
		var u syscall.Rusage
		figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	for i := range n {
		began := now()
		fn(i)
		ms = append(ms, now()-began)
	}
	return ms
}

func main() {
	only := "" // the group of rows to measure, from the first argument: append, open or search
	if len(os.Args) > 1 {
		only = os.Args[1]
	}
	dir, err := os.MkdirTemp("", "helix-bench-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	quiet, events := slog.New(slog.NewTextHandler(io.Discard, nil)), bus.New()
	db, err := storage.Open(context.Background(), storage.Options{Path: filepath.Join(dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot()), Bus: events})
	figures.Check(err)
	defer db.Close()
	user := db.LocalUser().ID
	ctx := identity.With(context.Background(), identity.Identity{User: user, Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal})
	service := &model{}
	web := httptest.NewServer(service)
	defer web.Close()

	gate := permission.New(db, events, permission.Options{Logger: quiet})
	ledger := agent.NewLedger(db, events)
	models, err := providers.New(db, providers.ServiceOptions{HTTP: safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }}), Meter: ledger, Logger: quiet,
		Caps: func() map[string]any {
			return map[string]any{"provider_defaults.local.window": int64(128_000), "overrides.local/small.window": int64(6000)}
		}})
	figures.Check(err)
	_, err = models.Set(ctx, providers.SetParams{Name: "local", Entry: providers.Entry{Type: providers.WireChat, BaseURL: web.URL}})
	figures.Check(err)
	_, err = models.SetRole(ctx, providers.SetRoleParams{Role: providers.RoleChat, Chain: []providers.ModelRef{"local/one"}})
	figures.Check(err)
	reg, probes := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	probes.Add(callable.Func{Info: callable.Info{Name: "probe.read", Effects: callable.Effects{ReadOnly: true}}, Run: func(context.Context, callable.Request) (any, error) { return "read", nil }})
	reg.Add(probes)
	open := func() *agent.Service {
		s := agent.New(db, events, agent.Options{Models: models, Gate: gate, Callables: reg, Ledger: ledger, Logger: quiet})
		gate.Register(string(agent.Kind), s, nil)
		return s
	}
	s := open()
	begin := func() uuid.UUID {
		made, err := s.Create(ctx, agent.CreateParams{})
		figures.Check(err)
		return made.Session.ID
	}
	say := func(session uuid.UUID) {
		sent, err := s.Send(ctx, agent.SendParams{SessionID: session, Text: "Is it so?"})
		figures.Check(err)
		got, err := s.Wait(ctx, agent.WaitParams{TurnID: sent.TurnID, WaitMs: 100_000})
		figures.Check(err)
		if got.Turn.State != agent.Completed {
			figures.Check(fmt.Errorf("a turn ended as %s: %+v", got.Turn.State, got.Turn.Error))
		}
	}

	opened := func() {
		small, err := s.Create(ctx, agent.CreateParams{Model: "local/small"})
		figures.Check(err)
		manyTurns(say, small.Session.ID)
		openSessions(ctx, open, begin, say)
		idleDay(ctx, s)
	}
	switch only {
	case "append":
		appends(ctx, db, s, service, begin)
		return
	case "open":
		opened()
		return
	case "search":
		searching(ctx, db, s, begin)
		return
	}
	// The first delta of a turn in a chat of 50 messages, compared with a plain client.
	session := begin()
	for range 25 {
		say(session)
	}
	first := make(chan struct{}, 1)
	stop := bus.Subscribe(events, func(uuid.UUID, agent.AssistantDelta) {
		select {
		case first <- struct{}{}:
		default:
		}
	})
	body, err := json.Marshal(map[string]any{"model": "one", "stream": true, "messages": []any{map[string]string{"role": "user", "content": strings.Repeat("Is it so? Yes. ", 50)}}})
	figures.Check(err)
	raw := timed(200, func(int) {
		resp, err := http.Post(web.URL+"/chat/completions", "application/json", bytes.NewReader(body))
		figures.Check(err)
		_, err = bufio.NewReader(resp.Body).ReadString('\n')
		figures.Check(err)
		figures.Check(resp.Body.Close())
	})
	var ours []float64
	for range 200 {
		t := time.Now()
		sent, err := s.Send(ctx, agent.SendParams{SessionID: session, Text: "Is it so?"})
		figures.Check(err)
		<-first
		ours = append(ours, time.Since(t).Seconds()*1000)
		_, err = s.Wait(ctx, agent.WaitParams{TurnID: sent.TurnID, WaitMs: 100_000})
		figures.Check(err)
	}
	stop()
	figures.Print("ttft.turn.p50", quantile(ours, 0.5)-quantile(raw, 0.5), "ms more", quantile(ours, 0.5)/quantile(raw, 0.5), "net/http")
	figures.Print("ttft.turn.p95", quantile(ours, 0.95)-quantile(raw, 0.95), "ms more", quantile(ours, 0.95)/quantile(raw, 0.95), "net/http")

	loop(filepath.Join(dir, "helix.db"), s, service, web.URL, begin, say)
	appends(ctx, db, s, service, begin)

	// A long chat, opened again by another service, compared with reading and parsing its payloads.
	session = begin()
	var rows int
	for rows < 10_000 {
		for range 100 {
			say(session)
		}
		figures.Check(db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM conversation_events WHERE session_id = ?`, session).Scan(&rows)
		}))
	}
	parse := func(int) {
		figures.Check(db.Read(ctx, func(tx *storage.Tx) error {
			return tx.Select(`SELECT payload_json FROM conversation_events WHERE session_id = ? ORDER BY sequence`, session).Each(func(row storage.Row) error {
				var raw []byte
				var v any
				if err := row.Scan(&raw); err != nil {
					return err
				}
				return json.Unmarshal(raw, &v)
			})
		}))
	}
	parsed := quantile(cpu(7, parse), 0.5)
	reopen := func(int) {
		other := open()
		_, err := other.Get(ctx, agent.SessionParams{SessionID: session})
		figures.Check(err)
		figures.Check(other.Close())
	}
	planning(ctx, s, open, session)
	figures.Print("resume.10k", quantile(timed(7, reopen), 0.5), "ms", quantile(cpu(7, reopen), 0.5)/parsed, "SELECT and encoding/json, processor time")
	figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`DELETE FROM session_state WHERE session_id = ?`, session)
		return err
	}))
	figures.Print("resume.10k.events", quantile(timed(7, reopen), 0.5), "ms", quantile(cpu(7, reopen), 0.5)/parsed, "SELECT and encoding/json, processor time")
	var before, after runtime.MemStats
	settle := func(m *runtime.MemStats) {
		runtime.GC()
		runtime.GC() // collects what the first one finalized
		runtime.ReadMemStats(m)
	}
	settle(&before)
	var others []*agent.Service
	for range 8 {
		other := open()
		_, err = other.Get(ctx, agent.SessionParams{SessionID: session})
		figures.Check(err)
		others = append(others, other)
	}
	settle(&after)
	figures.Print("session.memory", (float64(after.HeapAlloc)-float64(before.HeapAlloc))/(1<<20)/float64(len(others)), "MiB", 0, "")
	for _, other := range others {
		figures.Check(other.Close())
	}
	replayed := timed(3, func(int) {
		r, err := s.Replay(ctx, agent.ReplayParams{SessionID: session})
		figures.Check(err)
		if !r.Identical {
			figures.Check(fmt.Errorf("replay: %+v", r.FirstDifference))
		}
		rows = r.Requests
	})
	figures.Print("plan", quantile(replayed, 0.5)/float64(rows), "ms a request", 0, "")

	searching(ctx, db, s, begin)

	// A million calls in the ledger.
	figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
			INSERT INTO agent_ledger (id, user_id, agent_name, purpose, provider, model, state, cost_micros, input, output, at) SELECT randomblob(16), ?, 'helix', 'chat', 'old', 'm', 'settled', 1, 1, 1, i FROM n`, user)
		return err
	}))
	reserve := func(int) {
		h, err := ledger.Reserve(ctx, providers.Estimate{Provider: "local", Model: "one", Purpose: "chat", Input: 10, Output: 10})
		figures.Check(err)
		h.Settle(providers.Usage{Input: 10, Output: 10, Requests: 1}, 0, "done")
	}
	reserve(0)
	mine := quantile(timed(500, reserve), 0.5)
	base := quantile(timed(500, func(int) {
		id := storage.NewID()
		figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`INSERT INTO agent_ledger (id, user_id, agent_name, purpose, provider, model, state, at) VALUES (?, ?, 'helix', 'chat', 'local', 'one', 'reserved', ?)`, id, user, tx.Now)
			return err
		}))
		figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE agent_ledger SET state = 'settled', cost_micros = 1, settled_at = ? WHERE id = ?`, tx.Now, id)
			return err
		}))
	}), 0.5)
	figures.Print("ledger.reserve_settle", mine*1000, "us", mine/base, "INSERT and UPDATE")
	figures.Print("ledger.extra", (mine-base)*1000, "us more", 0, "")
	opened()
	figures.Check(s.Close())
	scrubbing(dir)
}

// scrubbing removes 500 known values and everything that looks like a secret from a text, compared
// with a search for the same values.
func scrubbing(dir string) {
	var known []scrub.Secret
	var values, text strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		v := fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
		known = append(known, scrub.Secret{Name: fmt.Sprintf("KEY%d", i), Value: v})
		values.WriteString(v + "\n")
	}
	for line := 0; text.Len() < 32<<20; line++ {
		fmt.Fprintf(&text, "line %d: the boat of number%d is in %x; token and key are words\n", line, r.IntN(1000), r.Uint64())
		if line%1000 == 0 {
			text.WriteString(known[r.IntN(len(known))].Value + "\n")
		}
	}
	file, list := filepath.Join(dir, "text"), filepath.Join(dir, "values")
	figures.Check(os.WriteFile(file, []byte(text.String()), 0o600))
	figures.Check(os.WriteFile(list, []byte(values.String()), 0o600))
	s := scrub.New(known, scrub.Options{})
	mine := quantile(timed(5, func(int) {
		if s.String(text.String()) == text.String() {
			figures.Check(errors.New("nothing was removed"))
		}
	}), 0.5)
	grep := quantile(timed(5, func(int) {
		_, err := exec.Command("grep", "-c", "-F", "-f", list, file).Output() // with the null device as output, grep stops at the first match
		figures.Check(err)
	}), 0.5)
	rate := float64(text.Len()) / (1 << 20) / (mine / 1000)
	figures.Print("scrub", rate, "MB/s", grep/mine, "grep -F -f")
	figures.Print("scrub.rate", rate, "MB/s", 0, "")
}
