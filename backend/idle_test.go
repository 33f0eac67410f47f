package backend

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend/agent"
	"helix/backend/memory"
	"helix/backend/providers"
)

// A whole Helix with chats, memories, and a model for each role, on each wire, that nobody uses sends not
// one request to a model service in a day: not for a title, a summary, a check of the connection or anything that runs in the background.
func TestIdleDayOfAllServicesCallsNoModel(t *testing.T) {
	var asked atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer service.Close()
	o := testOptions(t.TempDir())
	var c *chatter
	t.Run("before", func(t *testing.T) {
		c = newChatter(t, o, providers.ScriptedReply{Text: "Paris."}, providers.ScriptedReply{Text: "Two million."})
		s := c.create(agent.CreateParams{})
		c.say(s.ID, "What is the capital of France?")
		c.say(s.ID, "How many people live there?")
		c.call("memory.add", memory.AddParams{Content: "Nora lives in Paris."}, nil)
		for i, wire := range []string{providers.WireChat, providers.WireResponses, providers.WireAnthropic, providers.WireGemini} {
			name := fmt.Sprint("wire", i)
			c.call("providers.set", providers.SetParams{Name: name, APIKey: "idle-key-0123456789", Entry: providers.Entry{Type: wire, BaseURL: service.URL, SkipCatalogValidation: true}}, nil)
			c.call("providers.set_role", providers.SetRoleParams{Role: providers.Roles()[i], Chain: []providers.ModelRef{providers.ModelRef(name + "/one")}}, nil)
		}
		c.call("providers.list", struct{}{}, nil)
	})
	before := c.srv.Calls()
	o.Listen = false // a listener waits outside of the virtual clock
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- b.Run(context.WithoutCancel(t.Context())) }()
		time.Sleep(24 * time.Hour)
		var spent agent.LedgerResult
		if spent, err = b.Ledger.List(b.as(b.LocalUser()), agent.LedgerParams{}); err != nil || len(spent.Rows) != before {
			t.Errorf("%d rows in the ledger, want %d, %v", len(spent.Rows), before, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if n := asked.Load(); n != 0 {
		t.Errorf("services that nobody uses got %d requests", n)
	}
	if got := c.srv.Calls(); got != before || before != 2 {
		t.Errorf("%d calls of the model before the day, %d after it", before, got)
	}
}
