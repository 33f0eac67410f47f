//go:build linux

package channels_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/testkit"
)

// testAPI is the server of the npm package telegram-test-api, which make setup-npm installs.
type testAPI struct {
	t   *testing.T
	url string
}

func newTestAPI(t *testing.T) *testAPI {
	t.Helper()
	script, err := filepath.Abs("../../build/telegram/server.mjs")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", script)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("run make setup-npm: %v", err)
	}
	return &testAPI{t, "http://127.0.0.1:" + strings.TrimSpace(port)}
}

func (a *testAPI) call(path string, body any, result any) {
	a.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.url+path, bytes.NewReader(raw))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(result); err != nil {
		a.t.Fatal(err)
	}
}

// say sends a message of a person to the bot.
func (a *testAPI) say(person int64, text string) {
	a.t.Helper()
	m := channelstest.Private(person, text)
	m["botToken"] = channelstest.Token
	a.call("/sendMessage", m, new(struct{}))
}

// received returns the texts that a person has received, once there are n.
func (a *testAPI) received(person int64, n int) (texts []string) {
	a.t.Helper()
	return testkit.Eventually(a.t, "the messages", func() []string {
		var out struct {
			Result []struct{ Message struct{ Text string } }
		}
		a.call("/getUpdates", map[string]any{"token": channelstest.Token, "chatId": person}, &out)
		for _, u := range out.Result {
			text, err := channelstest.VisibleText(u.Message.Text)
			if err != nil {
				a.t.Errorf("%q: %v", u.Message.Text, err)
			}
			texts = append(texts, text)
		}
		return texts
	}, func(list []string) bool { return len(list) >= n })
}

func (a *testAPI) Add() channels.AddParams {
	return channels.AddParams{Kind: "telegram", Name: "Phone", Config: channels.Config{URL: a.url}, Token: channelstest.Token}
}
func (a *testAPI) Connect(*channels.Service, channels.AddResult) {}
func (a *testAPI) Say(_ *testing.T, _ int, text string)          { a.say(sender, text) }
func (a *testAPI) SendFile(t *testing.T, _ int, _ string, _ []byte) {
	t.Fatal("the server has no files")
}
func (a *testAPI) Refuse(int)                     { a.t.Fatal("the server refuses nothing") }
func (a *testAPI) Sent() <-chan channels.Outgoing { return nil }

// A person pairs, writes, starts another chat, and gets a long answer, at a server that is not ours.
func TestTelegramAtAnotherServer(t *testing.T) {
	t.Parallel()
	a := newTestAPI(t)
	r := channelstest.NewRig(t, a, channels.Options{}, nil)
	one := func(text, want string) {
		t.Helper()
		a.say(sender, text)
		if got := a.received(sender, 1); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	one("Hello *you* & <me>", "Echo: Hello you & <me>")
	a.say(666, "Let me in")
	r.Wait(`SELECT count(*) FROM audit_log WHERE action = 'channel.rejected'`, 1)
	code, err := r.Pair(r.Ctx, channels.IDParams{ID: r.Added.Channel.ID})
	if err != nil {
		t.Fatal(err)
	}
	a.say(77, "/pair "+code.Code)
	if got := a.received(77, 1); got[0] != "Paired." {
		t.Errorf("%q", got)
	}
	one("/new", "Started another chat.")
	one("Where are we?", "Echo: Where are we?")
	if in := r.Agent.Inputs(); len(in) != 2 || in[0].Session == in[1].Session {
		t.Errorf("%+v", in)
	}
	r.Agent.Hold(true)
	a.say(sender, "Before the restart")
	r.Wait(`SELECT count(*) FROM channel_inbox WHERE state = 'submitted'`, 1)
	r.Restart()
	r.Agent.Hold(false)
	if got := a.received(sender, 1); len(got) != 1 || got[0] != "Echo: Before the restart" {
		t.Errorf("%q", got)
	}
	long := channelstest.Paragraphs(100)
	r.Agent.Answer = func(string) channels.Outcome { return channels.Outcome{Ended: true, Text: long} }
	a.say(sender, "Tell me all")
	if got := a.received(sender, 3); strings.Join(got, "\n\n") != long {
		t.Errorf("%d parts that are not the answer", len(got))
	}
	if got := a.received(666, 0); len(got) != 0 {
		t.Errorf("a stranger received %q", got)
	}
}
