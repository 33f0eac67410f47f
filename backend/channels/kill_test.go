//go:build linux

package channels_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

const killEnv = "HELIX_CHANNELS_CHILD"

// killSetup is shared by the test and the processes that it kills.
type killSetup struct {
	Path, Telegram, Agent string
	DieAt                 string // step at which the process ends; "": when everything is answered
	Nth                   int    // how often the step was reached
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

// run runs the channels until both messages are answered, or the process dies.
func (k killSetup) run() error {
	root := &storagetest.Root{Key: bytes.Repeat([]byte{7}, storage.RootKeySize)}
	db, err := storage.Open(context.Background(), storage.Options{Path: k.Path, Keys: storage.NewKeys(root), Bus: bus.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Admin.Closed(), Client: identity.ClientTerminal, Session: uuid.New()})
	s := channels.New(db, channels.Options{Sessions: remoteAgent{k.Agent}, Secrets: storage.NewSecrets(db)})
	var mu sync.Mutex
	reached := 0
	channels.CrashPoints(s, func(step string) {
		mu.Lock()
		defer mu.Unlock()
		if step == k.DieAt {
			if reached++; reached == k.Nth {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	})
	list, err := s.List(ctx, struct{}{})
	if err != nil {
		return err
	}
	if len(list.Channels) == 0 {
		added, err := s.Add(ctx, channels.AddParams{Kind: "telegram", Name: "Phone", Config: channels.Config{URL: k.Telegram}, Token: channelstest.Token})
		if err != nil {
			return err
		}
		if _, err := s.Allow(ctx, channels.AllowParams{ID: added.Channel.ID, SenderID: channelstest.Sender}); err != nil {
			return err
		}
	}
	moved := make(chan struct{}, 1)
	bus.Subscribe(db.Bus(), func(uuid.UUID, channels.Message) {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for {
		var answered int
		if err := db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT (SELECT count(*) FROM channel_inbox WHERE state = 'done') + (SELECT count(*) FROM channel_outbox WHERE state = 'sent')`).Scan(&answered)
		}); err != nil || answered == 4 {
			return err
		}
		select {
		case <-moved:
		case err := <-ended:
			return errors.Join(err, errors.New("the channels ended"))
		}
	}
}

// remoteAgent is an agent in another process, which survives.
type remoteAgent struct{ url string }

func (a remoteAgent) call(path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	resp, err := http.Post(a.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return fault.NotFoundf("Turn not found.")
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func (remoteAgent) Ready(context.Context) (bool, error)             { return true, nil }
func (remoteAgent) Ensure(context.Context, uuid.UUID, string) error { return nil }
func (remoteAgent) Cancel(context.Context, uuid.UUID) error         { return nil }
func (a remoteAgent) Submit(_ context.Context, session uuid.UUID, in channels.Input) error {
	return a.call("/submit", channelstest.Input{Session: session, Input: in}, new(struct{}))
}
func (a remoteAgent) Outcome(_ context.Context, turn uuid.UUID) (out channels.Outcome, err error) {
	return out, a.call("/outcome", turn, &out)
}

// serveAgent serves an agent to remoteAgent.
func serveAgent(a *channelstest.Agent) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var out any = struct{}{}
		if r.URL.Path == "/submit" {
			var in channelstest.Input
			if err = json.Unmarshal(body, &in); err == nil {
				err = a.Submit(r.Context(), in.Session, in.Input)
			}
		} else {
			var turn uuid.UUID
			if err = json.Unmarshal(body, &turn); err == nil {
				out, err = a.Outcome(r.Context(), turn)
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}

// Whenever the process is killed, each message is handled once, no reply is lost, and at most one is
// repeated, which says so.
func TestKilledProcessLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	times := 1
	if os.Getenv("HELIX_LONG") != "" {
		times = 2
	}
	for _, step := range []string{"before commit", "after commit", "after submit", "after answer", "before send", "after send"} {
		for nth := 1; nth <= times; nth++ {
			t.Run(fmt.Sprint(step, " ", nth), func(t *testing.T) {
				t.Parallel()
				killAt(t, step, nth)
			})
		}
	}
}

func killAt(t *testing.T, step string, nth int) {
	t.Helper()
	p := newTelegramPeer(t)
	agent := &channelstest.Agent{}
	srv := httptest.NewServer(serveAgent(agent))
	t.Cleanup(srv.Close)
	p.Write(sender, "one")
	p.Write(sender, "two")
	k := killSetup{Path: filepath.Join(t.TempDir(), "helix.db"), Telegram: p.URL, Agent: srv.URL, DieAt: step, Nth: nth}
	storagetest.Blank(t, k.Path)
	start := func() (string, error) {
		text, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+string(text), "GOCOVERDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := start()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it was not killed: %v\n%s", err, out)
	}
	k.DieAt = ""
	if out, err := start(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if in := agent.Inputs(); len(in) != 2 || in[0].Text != "one" || in[1].Text != "two" || in[0].Session != in[1].Session {
		t.Errorf("the agent got %+v", in)
	}
	got := map[string]int{}
	marked := 0
	for len(p.Telegram.Sent()) > 0 || len(p.Raw) > 0 || got["Echo: one"] == 0 || got["Echo: two"] == 0 {
		text, repeat := strings.CutPrefix((<-p.Raw).Text, "(may be a repeat) ")
		if got[text]++; repeat {
			marked++
		}
	}
	if extra := got["Echo: one"] + got["Echo: two"] - 2; len(got) != 2 || marked > 1 || extra > marked {
		t.Errorf("sent %v, %d marked", got, marked)
	}
	if strings.HasSuffix(step, "send") && marked != 1 { // killed at another step, a reply may be on its way too
		t.Errorf("%d marked", marked)
	}
}
