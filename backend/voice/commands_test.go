package voice

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// phrases is the corpus, which make bench-audio measures too: commands with texts that mean them, as people
// say them and recognizers write them; texts that are similar and mean something else; and other speech.
type phrases struct {
	Commands []struct {
		Phrase string
		Said   []string
	}
	NearMisses, Sentences []string
}

//go:embed testdata/phrases.json
var phrasesJSON []byte

func corpus(t testing.TB) (p phrases) {
	t.Helper()
	if err := json.Unmarshal(phrasesJSON, &p); err != nil || len(p.Commands) == 0 {
		t.Fatal(err)
	}
	return p
}

func corpusCommands(t *testing.T) (list []command) {
	t.Helper()
	for i, c := range corpus(t).Commands {
		p, err := parsePhrase(c.Phrase)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, command{Command: Command{ID: uuid.New(), Name: fmt.Sprint(i), TriggerPhrase: c.Phrase, TriggerConfidence: 0.8, Enabled: true, Slots: p.slots, RiskTier: RiskLow}, phrase: p})
	}
	return list
}

// noise returns texts of random words of the commands and of other speech.
func noise(t testing.TB, n int) (out []string) {
	t.Helper()
	p := corpus(t)
	r := rand.New(rand.NewPCG(1, 2))
	var all []string
	for _, s := range p.Sentences {
		all = append(all, strings.Fields(s)...)
	}
	for _, c := range p.Commands {
		for _, w := range strings.Fields(c.Phrase) {
			if !strings.ContainsAny(w, "{}") {
				all = append(all, w)
			}
		}
	}
	for range n {
		var w []string
		for range 1 + r.IntN(9) {
			w = append(w, all[r.IntN(len(all))])
		}
		out = append(out, strings.Join(w, " "))
	}
	return out
}

func TestCommandsAreRecognizedAndOtherSpeechIsNot(t *testing.T) {
	t.Parallel()
	list, p := corpusCommands(t), corpus(t)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	accepted, total := 0, 0
	for i, c := range p.Commands {
		for _, text := range c.Said {
			total++
			hits, near := matchWords(list, words(text), now)
			if decide(hits) == DecideRun && hits[0].Name == fmt.Sprint(i) {
				accepted++
				continue
			}
			t.Logf("not recognized: %q %s %v %v", text, decide(hits), candidates(hits), candidates(near))
		}
	}
	if rate := float64(accepted) / float64(total); rate < 0.95 {
		t.Errorf("accepted %d of %d", accepted, total)
	}
	others := slices.Concat(p.NearMisses, p.Sentences, noise(t, 1000))
	wrong, near := 0, 0
	for i, text := range others {
		if hits, _ := matchWords(list, words(text), now); decide(hits) != DecideNone && hits[0].score < 1 {
			wrong++
			t.Logf("accepted: %q as %q with %.2f", text, hits[0].TriggerPhrase, hits[0].score)
			if i < len(p.NearMisses) {
				near++
			} else if i < len(p.NearMisses)+len(p.Sentences) {
				t.Errorf("%q is no command", text)
			}
		}
	}
	t.Logf("accepted %d of %d commands and %d of %d other texts", accepted, total, wrong, len(others))
	if rate := float64(near) / float64(len(p.NearMisses)); rate > 0.1 {
		t.Errorf("accepted %d of %d near-misses", near, len(p.NearMisses))
	}
	if rate := float64(wrong) / float64(len(others)); rate > 0.01 {
		t.Errorf("accepted %d of %d other texts", wrong, len(others))
	}
}

func TestSlotsHaveTypedValues(t *testing.T) {
	t.Parallel()
	list := corpusCommands(t)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) // a Wednesday
	for text, want := range map[string]string{
		"Remind me to call Anna at seven thirty pm":     `{"what":"call Anna","when":"19:30"}`,
		"remind me to meet at noon at half past six":    `{"what":"meet at noon","when":"06:30"}`,
		"set a timer for an hour and ten minutes":       `{"length":4200}`,
		"add one hundred and five euros to rent please": `{"amount":105,"budget":"rent"}`,
		"what happened on monday":                       `{"day":"2026-03-09"}`,
		"what happened on the 2nd of May":               `{"day":"2026-05-02"}`,
		"What happened on January first":                `{"day":"2027-01-01"}`,
	} {
		hits, _ := matchWords(list, words(text), now)
		if len(hits) == 0 {
			t.Errorf("%q: no match", text)
			continue
		}
		if got := toJSON(hits[0].slots); got != want || hits[0].Problem != "" {
			t.Errorf("%q: %s (%s), want %s", text, got, hits[0].Problem, want)
		}
	}
	for text, amount := range map[string]float64{"add 1,250 euros to rent": 1250, "add 2,5 euros to rent": 2.5, "add 1,250.75 euros to rent": 1250.75, "add 2.50 euros to rent": 2.5} {
		if hits, _ := matchWords(list, words(text), now); len(hits) == 0 || hits[0].slots["amount"] != amount {
			t.Errorf("%q: %+v", text, hits)
		}
	}
	if hits, _ := matchWords(list, words("set a timer for ½ hour"), now); len(hits) == 0 || hits[0].Problem == "" {
		t.Errorf("½ hour: %+v", hits)
	}
	hits, _ := matchWords(list, words("add five euros to savings"), now)
	if len(hits) == 0 || decide(hits) != DecideNone || !strings.Contains(hits[0].Problem, "food, travel, rent") {
		t.Errorf("%+v", hits)
	}
}

func TestThresholdIsInclusive(t *testing.T) {
	t.Parallel()
	// abcdefghij and five edits: 0.8 needs at most 2 of 10 characters.
	p, err := parsePhrase("abcdefghij")
	if err != nil {
		t.Fatal(err)
	}
	list := []command{{Command: Command{Name: "x", TriggerConfidence: 0.8, Enabled: true}, phrase: p}}
	for text, want := range map[string]bool{"abcdefghij": true, "abcdefghxy": true, "abcdefgxyz": false} {
		if hits, _ := matchWords(list, words(text), time.Now()); (len(hits) == 1) != want {
			t.Errorf("%q: %v", text, hits)
		}
	}
}

func TestScoreIsSymmetricAndOneOnlyForEqualPhrases(t *testing.T) {
	t.Parallel()
	texts := append(noise(t, 120), "a b", "b a", "ab")
	for i, a := range texts {
		for _, b := range texts[i:] {
			pa, erra := parsePhrase(a)
			pb, errb := parsePhrase(b)
			if erra != nil || errb != nil {
				continue
			}
			x, _ := hear(words(b), time.Now()).match(pa, true)
			y, _ := hear(words(a), time.Now()).match(pb, true)
			if x.score != y.score || x.score < 0 || x.score > 1 || (x.score == 1) != (pa.key() == pb.key()) {
				t.Fatalf("%q, %q: %g and %g", a, b, x.score, y.score)
			}
		}
	}
}

// starts is a provider of skills that only records what is started.
type starts struct {
	mu      sync.Mutex
	infos   []callable.Info
	started []callable.Request
	refuse  error
}

func (*starts) Kind() callable.Kind { return callable.Skill }

func (p *starts) Find(_ context.Context, id, _ string) (out []callable.Info, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.infos {
		if i.ID == id {
			out = append(out, i)
		}
	}
	return out, nil
}

func (p *starts) List(context.Context) ([]callable.Info, error) { return p.infos, nil }

func (*starts) Call(context.Context, callable.Ref, callable.Request) (callable.Result, error) {
	return callable.Result{}, fault.Unavailablef("Not used.")
}

func (*starts) Rights(context.Context, callable.Info, json.RawMessage) (permission.PreviewResult, error) {
	return permission.PreviewResult{}, nil
}

func (p *starts) Enqueue(_ *storage.Tx, _ callable.Ref, r callable.Request) (uuid.UUID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return uuid.Nil, p.refuse
	}
	p.started = append(p.started, r)
	return uuid.New(), nil
}

func (*starts) Start(uuid.UUID) {}

func (*starts) State(context.Context, uuid.UUID) (callable.State, error) {
	return callable.State{}, nil
}

func (*starts) Cancel(context.Context, uuid.UUID, string) error { return nil }

func (p *starts) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.started)
}

func commandFixture(t *testing.T) (*fixture, *starts, chan CommandHeard) {
	t.Helper()
	p := &starts{infos: []callable.Info{
		{Ref: callable.Ref{Kind: callable.Skill, ID: "read"}, Name: "Read", Hash: "h1", Effects: callable.Effects{ReadOnly: true}},
		{Ref: callable.Ref{Kind: callable.Skill, ID: "write"}, Name: "Write", Hash: "h2"},
		{Ref: callable.Ref{Kind: callable.Skill, ID: "delete"}, Name: "Delete", Hash: "h3", Effects: callable.Effects{Destructive: true}},
	}}
	reg := callable.NewRegistry(nil)
	reg.Add(p)
	events := make(chan CommandHeard, 100)
	f := newFixture(t, func(o *Options) {
		o.Callables = reg
		t.Cleanup(bus.Subscribe(o.Bus, func(_ uuid.UUID, e CommandHeard) { events <- e }))
	})
	t.Cleanup(func() { f.Close() })
	return f, p, events
}

func (f *fixture) command(phrase, skill string) Command {
	f.t.Helper()
	c, err := f.CreateCommand(f.ctx, CreateCommandParams{Name: phrase, TriggerPhrase: phrase, ActionType: ActionSkill, SkillID: skill, ActionParams: json.RawMessage(`{"to":"{who}"}`)})
	f.must(err)
	return c
}

func (f *fixture) say(text string, confidence float64) CommandHeard {
	f.t.Helper()
	h, err := f.act(f.ctx, text, confidence, uuid.New(), nil)
	f.must(err)
	return h
}

func TestRiskyCommandRunsOnlyAfterConfirmation(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	low := f.command("look up {who:text}", "read")
	high := f.command("erase {who:text}", "delete")
	if low.RiskTier != RiskLow || high.RiskTier != RiskHigh {
		t.Fatalf("%s, %s", low.RiskTier, high.RiskTier)
	}
	if h := f.say("look up Anna", 0.9); h.Status != "started" || h.RunID == nil || p.count() != 1 {
		t.Fatalf("%+v", h)
	}
	if got := string(p.started[0].Input); got != `{"to":"Anna"}` || p.started[0].Hash != "h1" || p.started[0].Caller.Kind != "voice" {
		t.Errorf("%s, %+v", got, p.started[0])
	}
	h := f.say("erase Anna", 0.9)
	if h.Decision != DecideConfirm || h.PendingID == nil || h.Slots["who"] != "Anna" || p.count() != 1 {
		t.Fatalf("%+v", h)
	}
	if _, err := f.Confirm(f.them, ConfirmParams{PendingID: *h.PendingID, Accept: true}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user: %v", err)
	}
	if r, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID}); err != nil || r.Status != "declined" || p.count() != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID, Accept: true}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a second answer: %v", err)
	}
	h = f.say("erase Anna", 0.9)
	if r, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID, Accept: true}); err != nil || r.Status != "started" || p.count() != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	l, err := f.ListCommands(f.ctx, struct{}{})
	f.must(err)
	for _, c := range l.Commands {
		if c.UsageCount != 1 || c.LastUsed == nil {
			t.Errorf("%s: used %d times", c.Name, c.UsageCount)
		}
	}
}

func TestUncertainTextRaisesTheRisk(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	f.command("note {who:text}", "write")
	if h := f.say("note Anna", 0.59); h.Decision != DecideConfirm || p.count() != 0 {
		t.Errorf("%+v", h)
	}
	if h := f.say("note Anna", 0.6); h.Decision != DecideRun || p.count() != 1 {
		t.Errorf("%+v", h)
	}
}

func TestUnansweredCommandExpires(t *testing.T) {
	t.Parallel()
	f, p, events := commandFixture(t)
	f.command("erase {who:text}", "delete")
	h := f.say("erase Anna", 1)
	<-events
	f.commands.mu.Lock()
	f.commands.pending[*h.PendingID].expiry.Reset(0)
	f.commands.mu.Unlock()
	if e := <-events; e.Status != "expired" || p.count() != 0 {
		t.Errorf("%+v", e)
	}
	if _, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID, Accept: true}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestAmbiguousTextRunsTheChosenCommand(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	f.command("open the blue notes for {who:text}", "read")
	other := f.command("open the blue votes for {who:text}", "read")
	h := f.say("open the blue totes for Anna", 1)
	if h.Decision != DecideAmbiguous || len(h.Candidates) != 2 || p.count() != 0 {
		t.Fatalf("%+v", h)
	}
	if _, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID, Accept: true}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	if r, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID, Accept: true, CommandID: &other.ID}); err != nil || r.Status != "started" || p.started[0].Caller.ID != other.ID.String() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRiskTierCannotBeLoweredAndChangedTargetIsRefused(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	c := f.command("note {who:text}", "write")
	low := RiskLow
	if _, err := f.UpdateCommand(f.ctx, UpdateCommandParams{CommandID: c.ID, RiskTier: &low}); !fault.Is(err, fault.Invalid) {
		t.Errorf("lowered: %v", err)
	}
	p.infos[1].Effects.Destructive = true
	if h := f.say("note Anna", 1); h.Decision == DecideRun || p.count() != 0 {
		t.Errorf("the target became risky: %+v", h)
	}
	p.infos[1].Hash = "h9"
	if h := f.say("note Anna", 1); h.Status != "failed" || !strings.Contains(h.Error, "has changed") || p.count() != 0 {
		t.Errorf("%+v", h)
	}
	p.refuse = fault.Deniedf("Not allowed.")
	saved, err := f.UpdateCommand(f.ctx, UpdateCommandParams{CommandID: c.ID})
	if err != nil || saved.RiskTier != RiskHigh || saved.Problem != "" {
		t.Errorf("%+v, %v", saved, err)
	}
	h := f.say("note Anna", 1)
	if r, err := f.Confirm(f.ctx, ConfirmParams{PendingID: *h.PendingID, Accept: true}); err != nil || r.Status != "failed" || r.Error != "Not allowed." {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestInvalidCommandsAreRefused(t *testing.T) {
	t.Parallel()
	f, _, _ := commandFixture(t)
	f.command("look up {who:text}", "read")
	half := 0.49
	for field, p := range map[string]CreateCommandParams{
		"triggerPhrase":     {Name: "a", TriggerPhrase: "Look up, {name:text}", ActionType: ActionSkill, SkillID: "read"},
		"triggerConfidence": {Name: "a", TriggerPhrase: "go", TriggerConfidence: &half, ActionType: ActionNavigation, NavigationTarget: "tools"},
		"navigationTarget":  {Name: "a", TriggerPhrase: "go", ActionType: ActionNavigation, NavigationTarget: "nowhere"},
		"skillId":           {Name: "a", TriggerPhrase: "go", ActionType: ActionSkill, SkillID: "gone"},
		"actionType":        {Name: "a", TriggerPhrase: "go", ActionType: "shell"},
		"actionParams":      {Name: "a", TriggerPhrase: "go", ActionType: ActionNavigation, NavigationTarget: "tools", ActionParams: json.RawMessage(`[]`)},
		"name":              {TriggerPhrase: "go", ActionType: ActionNavigation, NavigationTarget: "tools"},
	} {
		_, err := f.CreateCommand(f.ctx, p)
		if got := toJSON(fault.As(err).Details); !fault.Is(err, fault.Invalid) || !strings.Contains(got, `"`+field+`"`) {
			t.Errorf("%s: %v %s", field, err, got)
		}
	}
	for _, phrase := range []string{"", "{a:text}", "go {a}", "go {a:list}", "go {a:text} {b:text}", "go {a:text} to {a:text}", "go }", "go {a:text", "go {a:enum()}"} {
		if _, err := parsePhrase(phrase); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", phrase, err)
		}
	}
}

func TestReplayedRecordingRunsNothing(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	_, err := f.CreateCommand(f.ctx, CreateCommandParams{Name: "proverb", TriggerPhrase: "Übung macht den Meister", ActionType: ActionSkill, SkillID: "read"})
	f.must(err)
	r := f.upload()
	for f.next() {
	}
	if m := f.memo(r.MemoID); m.Status != completed || p.count() != 0 {
		t.Fatalf("%+v", m)
	}
	// The same recording runs the command when the user asks for it.
	out, err := f.Process(f.ctx, ProcessParams{RecordingID: &r.RecordingID, Mode: "command"})
	if err != nil || out.Command == nil || out.Command.Status != "started" || p.count() != 1 {
		t.Errorf("%+v, %v", out.Command, err)
	}
}

func TestCommandFromMemoUsesTheEditedText(t *testing.T) {
	t.Parallel()
	f, p, _ := commandFixture(t)
	f.command("look up {who:text}", "read")
	r := f.upload()
	for f.next() {
	}
	calls := f.local.calls + f.cloud.calls
	_, err := f.EditTranscript(f.ctx, EditParams{r.RecordingID, "look up Anna"})
	f.must(err)
	id, _ := identity.From(f.ctx)
	id.Client, id.Session = identity.ClientBrowser, storage.NewID()
	out, err := f.Process(identity.With(f.ctx, id), ProcessParams{RecordingID: &r.RecordingID, Mode: "command"})
	if err != nil || out.Transcript != "look up Anna" || out.Command == nil || out.Command.Status != "started" || p.count() != 1 {
		t.Errorf("%+v, %+v, %v", out, out.Command, err)
	}
	if out.Command.SessionID == nil || *out.Command.SessionID != id.Session {
		t.Errorf("said in session %v, want %s", out.Command.SessionID, id.Session)
	}
	if f.local.calls+f.cloud.calls != calls {
		t.Error("the recording was transcribed again")
	}
}

func TestCommandsBelongToTheirUser(t *testing.T) {
	t.Parallel()
	f, _, _ := commandFixture(t)
	c := f.command("look up {who:text}", "read")
	if l, err := f.ListCommands(f.them, struct{}{}); err != nil || len(l.Commands) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := f.DeleteCommand(f.them, CommandParams{c.ID}); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if m, err := f.TestCommand(f.them, TestCommandParams{"look up Anna"}); err != nil || m.Decision != DecideNone {
		t.Errorf("%+v, %v", m, err)
	}
	_, err := f.DeleteCommand(f.ctx, CommandParams{c.ID})
	f.must(err)
	same := f.command("Look up, {name:text}", "read")
	if err := f.CommandTrash().Restore(f.ctx, c.ID); !fault.Is(err, fault.Invalid) {
		t.Errorf("two commands have the same phrase: %v", err)
	}
	_, err = f.DeleteCommand(f.ctx, CommandParams{same.ID})
	f.must(err)
	f.must(f.CommandTrash().Restore(f.ctx, c.ID))
	if l, err := f.ListCommands(f.ctx, struct{}{}); err != nil || len(l.Commands) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}

func BenchmarkCommandMatch(b *testing.B) {
	list := []command{}
	r := rand.New(rand.NewPCG(3, 4))
	var all []string
	for _, s := range corpus(b).Sentences {
		all = append(all, strings.Fields(s)...)
	}
	for i := range 1000 {
		text := fmt.Sprintf("%s %s %s %s", all[r.IntN(len(all))], all[r.IntN(len(all))], all[r.IntN(len(all))], all[r.IntN(len(all))])
		if i%2 == 0 {
			text += " {what:text}"
		}
		p, err := parsePhrase(text)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, command{Command: Command{TriggerConfidence: 0.8, Enabled: true, Slots: p.slots}, phrase: p})
	}
	for b.Loop() {
		matchWords(list, words("please remind me to call my brother about the old bicycle"), time.Now())
	}
}

func FuzzCommandGrammar(f *testing.F) {
	for _, c := range corpus(f).Commands {
		f.Add(c.Phrase, c.Said[0])
	}
	f.Fuzz(func(t *testing.T, phrase, text string) {
		p, err := parsePhrase(phrase)
		if err != nil || len(text) > 500 {
			return
		}
		c := command{Command: Command{TriggerConfidence: 0.8, Enabled: true, Slots: p.slots}, phrase: p}
		hits, near := matchWords([]command{c}, words(text), time.Now())
		for _, m := range append(hits, near...) {
			if m.score < 0 || m.score > 1 {
				t.Fatalf("score %g", m.score)
			}
		}
	})
}
