package agent

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/providers"
	"helix/backend/providers/providerstest"
)

// A turn that waits for a service's rate limit says so, and says when the wait is over, before the answer.
func TestWaitForARateLimitIsShown(t *testing.T) {
	t.Parallel()
	srv := providerstest.New(t, providerstest.Options{Chaos: providerstest.Chaos{Status: 429, RetryAfter: time.Millisecond, Times: 2}, Replies: []providers.ScriptedReply{{Text: "Yes."}}})
	k := askServers(t, srv)
	var mu sync.Mutex
	var got []string
	defer bus.Subscribe(k.bus, func(_ uuid.UUID, e TurnProgress) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e.Kind+" "+e.Message)
	})()
	defer bus.Subscribe(k.bus, func(_ uuid.UUID, e AssistantDelta) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, "text")
	})()
	if turn := k.say(k.begin(), "Is it so?"); turn.State != Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"provider_call ", "waiting_rate a", "waiting_rate ", "waiting_rate a", "waiting_rate ", "text"}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%q, want %q first", got, want)
	}
}

// A tool that runs long says regularly that it still runs, so that a window opened meanwhile knows.
func TestToolThatRunsLongIsShown(t *testing.T) {
	t.Parallel()
	seen := make(chan TurnProgress, 1)
	reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	reg.Add(set)
	set.Add(callable.Func{Info: callable.Info{Name: "clock.wait", Effects: callable.Effects{ReadOnly: true}}, Run: func(ctx context.Context, _ callable.Request) (any, error) {
		select {
		case p := <-seen:
			return p.Message, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	asked := false
	k := newTalk(t, spoken{window: assumedWindow, answer: func(context.Context, providers.Request) (providers.Reply, error) {
		if asked {
			return providers.Reply{Parts: []providers.Part{providers.TextPart("Done.")}}, nil
		}
		asked = true
		return providers.Reply{Parts: []providers.Part{callOf("c1", "clock_wait", `{}`)}}, nil
	}}, func(o *Options) { o.Callables = reg })
	k.heartbeat = time.Millisecond
	defer bus.Subscribe(k.bus, func(_ uuid.UUID, e TurnProgress) {
		if e.Kind == "tool_heartbeat" {
			select {
			case seen <- e:
			default:
			}
		}
	})()
	session := k.begin()
	if turn := k.say(session, "Wait a little"); turn.State != Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	list, err := k.Messages(k.ctx, MessagesParams{SessionID: session})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Messages, func(m Message) bool {
		return m.Role == "tool" && m.Parts[0].Status == statusDone && m.Parts[0].Text == "clock_wait"
	}) {
		t.Errorf("%+v", list.Messages)
	}
}
