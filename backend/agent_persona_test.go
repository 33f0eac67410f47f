package backend

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
)

// The displayed precedence is the one that is used, and an edit applies from the next chat.
func TestPersonaTextsInTheirPrecedence(t *testing.T) {
	t.Parallel()
	said := providers.ScriptedReply{Text: "Aye."}
	c := newChatter(t, testOptions(t.TempDir()), said, said, said)
	text := func(s string) *string { return &s }
	c.call("agent.set_persona", agent.SetPersonaParams{System: text("TEXT FOR ALL")}, nil)
	var p agent.PersonaResult
	c.call("agent.set_persona", agent.SetPersonaParams{Name: "pirate", System: text("TEXT OF PIRATE"), Soul: text("SOUL OF PIRATE"), TOML: text("tools = [\"file_*\"]\nmode = \"read\"\n[budget]\nmax_turns = 3\n")}, &p)
	want := []string{"Built-in rules", "SYSTEM.md", "pirate/SYSTEM.md", "pirate/SOUL.md", "This chat"}
	if !reflect.DeepEqual(p.Precedence, want) || p.Settings.Budget.MaxTurns != 3 || len(p.Problems) != 0 {
		t.Fatalf("%+v", p)
	}
	s := c.create(agent.CreateParams{AgentName: "pirate", Mode: agent.ModeWork})
	c.call("agent.set_persona", agent.SetPersonaParams{Name: "pirate", System: text("LATER TEXT")}, nil)
	var holds agent.ContextResult
	c.call("chat.context", agent.SessionParams{SessionID: s.ID}, &holds)
	if s.Mode != agent.ModeRead || s.AgentName != "pirate" || s.Budget.MaxTurns != 3 || !reflect.DeepEqual(holds.Precedence, want) {
		t.Errorf("%+v, %v", s, holds.Precedence)
	}
	c.say(s.ID, "Hello")
	body, at := string(c.srv.Requests()[0].Body), -1
	for _, part := range []string{"You are Helix", "TEXT FOR ALL", "TEXT OF PIRATE", "SOUL OF PIRATE", "Hello"} {
		i := strings.Index(body, part)
		if i <= at {
			t.Errorf("%q stands at %d, after %d: %s", part, i, at, body)
		}
		at = i
	}
	for _, name := range c.offered(0) {
		if name == "web_fetch" || name == "file_write" || name == "delegate_to_agent" {
			t.Errorf("it has %s", name)
		}
	}
	var events agent.EventsResult
	c.call("chat.events", agent.EventsParams{SessionID: s.ID, Limit: 1}, &events)
	if !strings.Contains(string(events.Events[0].Data), p.Hash) {
		t.Errorf("the hash is not in the log: %s", events.Events[0].Data)
	}
	c.say(c.create(agent.CreateParams{AgentName: "pirate"}).ID, "Hello")
	if later := string(c.srv.Requests()[1].Body); !strings.Contains(later, "LATER TEXT") || strings.Contains(later, "TEXT OF PIRATE") {
		t.Error("the edit does not count in the next chat")
	}
	c.say(c.create(agent.CreateParams{}).ID, "Hello")
	if other := string(c.srv.Requests()[2].Body); strings.Contains(other, "PIRATE") || !strings.Contains(other, "TEXT FOR ALL") {
		t.Error("the default agent has the texts of another one")
	}
	c.replays(s.ID, 1)
	var list agent.PersonasResult
	c.call("agent.personas", nil, &list)
	if len(list.Personas) != 2 || list.Personas[1].Name != "pirate" || list.Personas[1].Sessions != 2 {
		t.Errorf("%+v", list)
	}
}

// Only a person can change a persona, and unusable settings are reported.
func TestPersonasThatAreRefused(t *testing.T) {
	t.Parallel()
	c := newChatter(t, testOptions(t.TempDir()))
	text := "Obey."
	program := identity.With(t.Context(), identity.Identity{User: c.b.LocalUser(), Scopes: identity.Admin.Closed()})
	if _, err := c.b.Agent.SetPersona(program, agent.SetPersonaParams{System: &text}); !fault.Is(err, fault.Denied) {
		t.Errorf("a program changes what agents are told: %v", err)
	}
	if _, err := c.b.Agent.SetPersona(identity.With(t.Context(), identity.Identity{User: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow}), agent.SetPersonaParams{System: &text}); err == nil {
		t.Error("another user writes into the folder of this one")
	}
	for name, toml := range map[string]string{"mode": `mode = "work"`, "unknown": `right = "all"`, "syntax": `tools = [`, "role": `role = "king"`} {
		if err := c.try("agent.set_persona", agent.SetPersonaParams{Name: "x", TOML: &toml}, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, name := range []string{"../x", "X", "a--b", "-a", "a/b", strings.Repeat("a", 65)} {
		if err := c.try("agent.set_persona", agent.SetPersonaParams{Name: name, System: &text}, nil); err == nil {
			t.Errorf("the name %q is accepted", name)
		}
	}
	dir := filepath.Join(c.b.Config.Paths().User, "agents", "broken")
	outside := filepath.Join(t.TempDir(), "secret.md")
	for path, text := range map[string]string{outside: "SECRET", filepath.Join(dir, "agent.toml"): "tools = ["} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "SYSTEM.md")); err != nil {
		t.Fatal(err)
	}
	var p agent.PersonaResult
	c.call("agent.persona", agent.PersonaParams{Name: "broken"}, &p)
	if len(p.Problems) != 2 || strings.Contains(p.System, "SECRET") {
		t.Errorf("%+v", p)
	}
	if err := c.try("chat.create", agent.CreateParams{AgentName: "broken"}, nil); err == nil {
		t.Error("an agent whose settings can't be read has a chat")
	}
	if err := c.try("chat.create", agent.CreateParams{AgentName: "nobody"}, nil); err == nil {
		t.Error("an agent that does not exist has a chat")
	}
}
