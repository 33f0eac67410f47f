package tui

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/permission"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// answered returns a chat with one answer that uses the Markdown that models write.
func answered() *backend {
	b := newBackend()
	b.say(2, "user", text("What do you know about boats?"))
	b.say(2, "assistant", text("# Boats\n\nHere is **what I found** about `boats`:\n\n- A dinghy is small, and it is rowed, sailed or driven by a small engine that hangs over the stern\n  1. main\n\n```go\nfunc main() {\n\tfmt.Println(\"ahoy\")\n}\n```\n\n> The sea is calm.\n\n日本語のテキスト, 👩‍👩‍👧 🎉, שלום עולם, a*b*c and 2 ** 3."))
	return b
}

// asked returns a chat that waits for an answer.
func asked() *backend {
	b := answered()
	b.say(3, "user", text("Write it to a file"))
	b.say(3, "assistant", text("I will write the file."), call("file_write", `{"path":"/shared/boats.md","text":"A dinghy is small"}`, "waiting"))
	b.run(3, agent.Waiting)
	b.get.ActiveTurn.Approvals = []uuid.UUID{id(9)}
	b.approval = permission.Approval{ID: id(9), DefinitionHash: "abc", Tier: "side_effecting", Status: "pending", Sentence: "Run the tool file_write", Subject: permission.SubjectRef{Name: "Helix"},
		Requested: []permission.Item{{Capability: "tool", Resource: "file_write", Why: `With {"path": "/shared/boats.md", "text": "A dinghy is small"}`}}}
	return b
}

func TestFrames(t *testing.T) {
	t.Parallel()
	scenes := map[string]func(t *testing.T, w, h int) *screen{
		"empty": func(t *testing.T, w, h int) *screen {
			b := newBackend()
			b.get.Session.ID = uuid.Nil
			return connected(t, b, w, h)
		},
		"answer": func(t *testing.T, w, h int) *screen { return connected(t, answered(), w, h) },
		"streaming": func(t *testing.T, w, h int) *screen {
			b := answered()
			b.say(3, "user", text("And ships?"))
			b.run(3, agent.Running)
			s := connected(t, b, w, h)
			s.event("chat.assistant_delta", delta(3, 0, 0, "A wrong beginning"))
			s.event("chat.attempt_discarded", agent.AttemptDiscarded{SessionID: id(1), TurnID: id(3)})
			s.event("chat.assistant_delta", delta(3, 1, 0, "Ships are **larger** than"))
			return s
		},
		"tool": func(t *testing.T, w, h int) *screen {
			b := newBackend()
			b.say(3, "user", text("List my files"))
			b.say(3, "assistant", text("I will look."), call("file_list", `{"path":"/shared"}`, ""), call("file_read", `{"path":"/shared/a.txt"}`, ""), call("web_fetch", `{"url":"https://example.org/a/very/long/path/that/does/not/fit/into/a/row/of/a/small/terminal"}`, ""))
			b.say(3, "tool", agent.Part{Kind: agent.PartToolResult, CallID: "file_list", Tool: "file_list", Status: "done", TookMs: 1240, Text: "a.txt\nb.txt"},
				agent.Part{Kind: agent.PartToolResult, CallID: "file_read", Tool: "file_read", Status: "failed", Text: "Not found."})
			b.run(3, agent.Running)
			s := connected(t, b, w, h)
			s.event("chat.turn_progress", agent.TurnProgress{SessionID: id(1), TurnID: id(3), Kind: "tool_execution", Message: "web_fetch", Turn: 1, MaxTurns: 100})
			s.send(tea.MouseClickMsg{X: 10, Y: 6, Button: tea.MouseLeft})
			return s
		},
		"approval": func(t *testing.T, w, h int) *screen {
			s := connected(t, asked(), w, h)
			s.wait()
			return s
		},
		"question": func(t *testing.T, w, h int) *screen {
			b := asked()
			b.approval.Requested = nil
			b.approval.Sentence = "What became of the call of file_write?"
			b.approval.Question = &permission.Question{Message: "Helix was stopped while it ran.", Details: json.RawMessage(`{"path":"/shared/boats.md"}`),
				Choices: []permission.Choice{{ID: "happened", Label: "It happened", Approves: true}, {ID: "again", Label: "Run again", Approves: true}, {ID: "stop", Label: "Stop"}}}
			s := connected(t, b, w, h)
			s.wait()
			return s
		},
		"queue": func(t *testing.T, w, h int) *screen {
			b := answered()
			b.say(3, "user", text("And ships?"))
			b.run(3, agent.Running)
			for i := range 5 {
				b.get.Queue = append(b.get.Queue, agent.QueuedInput{TurnID: id(20 + i), Text: fmt.Sprintf("Then tell me about\nnumber %d", i+1)})
			}
			return connected(t, b, w, h)
		},
		"long": func(t *testing.T, w, h int) *screen {
			b := newBackend()
			b.say(2, "user", text(strings.Repeat("Many words that wrap ", 12)))
			b.say(2, "assistant", text(strings.Repeat("word ", 150)+strings.Repeat("x", 260)+strings.Repeat("界", 120)))
			return connected(t, b, w, h)
		},
		"thousand": func(t *testing.T, w, h int) *screen {
			b := newBackend()
			for i := range 1001 {
				b.say(10+i/2, []string{"user", "assistant"}[i%2], text(fmt.Sprintf("Message %d", i+1)))
			}
			s := connected(t, b, w, h)
			s.keys("home")
			return s
		},
		"scrolled": func(t *testing.T, w, h int) *screen {
			b := newBackend()
			for i := range 100 {
				b.say(10+i/2, []string{"user", "assistant"}[i%2], text(fmt.Sprintf("Message %d", i+1)))
			}
			s := connected(t, b, w, h)
			s.keys("pgup")
			b.say(70, "user", text("Another"))
			b.say(70, "assistant", text("The answer to it"))
			s.event("chat.session_changed", agent.SessionEvent{SessionID: id(1)})
			return s
		},
		"paste": func(t *testing.T, w, h int) *screen {
			s := connected(t, answered(), w, h)
			s.send(tea.PasteMsg{Content: lines(100)})
			return s
		},
		"resize": func(t *testing.T, w, h int) *screen {
			s := connected(t, asked(), 300, 100)
			s.wait()
			s.frame()
			s.send(tea.WindowSizeMsg{Width: w, Height: h})
			return s
		},
		"help": func(t *testing.T, w, h int) *screen {
			s := connected(t, answered(), w, h)
			s.keys("/help", "enter")
			return s
		},
		"completion": func(t *testing.T, w, h int) *screen {
			s := connected(t, answered(), w, h)
			s.keys("/s", "down")
			return s
		},
		"sessions": func(t *testing.T, w, h int) *screen {
			b := answered()
			for i, title := range []string{"Boat plans", "", "Recipes for the weekend"} {
				b.list = append(b.list, agent.Session{ID: id(30 + i), Title: title, State: []string{"idle", "running", "idle"}[i], UpdatedAt: noon()})
			}
			s := connected(t, b, w, h)
			s.keys("/sessions", "enter", "down")
			return s
		},
		"reconnecting": func(t *testing.T, w, h int) *screen {
			b := answered()
			b.run(2, agent.Running)
			s := connected(t, b, w, h)
			s.event("chat.assistant_delta", delta(2, 0, 0, "An answer in the middle"))
			s.send(lostMsg{3})
			s.keys("To send later", "enter")
			return s
		},
		"no-model": func(t *testing.T, w, h int) *screen {
			b := newBackend()
			b.get.Session.ID = uuid.Nil
			b.status = agent.StatusResult{}
			return connected(t, b, w, h)
		},
	}
	for name, scene := range scenes {
		for _, size := range [][2]int{{80, 24}, {200, 60}} {
			t.Run(fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				golden(t, fmt.Sprintf("%s-%dx%d.txt", name, size[0], size[1]), scene(t, size[0], size[1]).frame())
			})
		}
	}
}

// A frame fits at every size, even if hardly anything does.
func TestFramesFitEverySize(t *testing.T) {
	t.Parallel()
	s := connected(t, asked(), 80, 24)
	s.wait()
	for _, typed := range []string{"", "/", "a 界界界 text\nof two lines"} {
		s.m.input.SetValue(typed)
		for w := 1; w < 90; w += 4 {
			for h := 1; h < 40; h++ {
				s.send(tea.WindowSizeMsg{Width: w, Height: h})
				s.frame()
			}
		}
	}
}
