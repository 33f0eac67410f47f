package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// poison makes the evaluation of one run panic.
func (b *fixture) poison(s *Service, run *uuid.UUID, times *int) {
	s.evaluating = func(id uuid.UUID) {
		if id == *run {
			*times++
			panic("poison")
		}
	}
}

func TestPanicInEvaluationFailsOnlyItsRun(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	parked := b.run(skillText(approval, `{"stepId":"t","toolType":"transform","value":1}`), `{"to":"you"}`).ExecutionID
	var bad uuid.UUID
	times := 0
	again := b.service()
	b.s.Close()
	b.poison(again, &bad, &times)
	bad = parked
	b.s = again
	b.start(again)
	_, _ = b.answer(parked, "ask", "approve") // loads it, so that it panics
	x := b.until(parked, is(machine.Failed))
	if x.Error == nil || x.Error.Kind != string(fault.Internal) || x.Error.Message != brokenMessage || times == 0 {
		t.Fatalf("%+v after %d panics", x.Error, times)
	}
	if out := b.run(skillText(`{"stepId":"t","toolType":"transform","value":2}`), `{}`); out.Status != machine.Completed {
		t.Fatalf("another run does not go on: %+v", out)
	}
	again.Close() // a run is unloaded after its end is stored
	again.mu.Lock()
	defer again.mu.Unlock()
	if len(again.live) != 0 || len(again.queues) != 0 {
		t.Fatalf("left in memory: %d runs, %d lines", len(again.live), len(again.queues))
	}
}

// endingConfig is the input of a process of the quarantine test.
type endingConfig struct {
	Path   string
	Begin  string // how it starts a run: execute, or enqueue like a schedule; "": it does not
	Die    bool   // dies: during a call, or when the run is evaluated
	Answer string // a person's decision about the quarantined run
}

const endingsEnv = "HELIX_SKILLS_ENDINGS"

// A step, followed by a read-only call that never returns.
const lastingSkill = `{"name":"lasting","steps":[{"stepId":"first","toolType":"custom","toolName":"ok"},{"stepId":"long","toolType":"custom","toolName":"read-long","timeoutMs":3600000}]}`

// lasting returns fakeTools whose call read-long signals begun and then blocks.
func lasting(begun chan<- struct{}) *fakeTools {
	h := &fakeTools{does: map[string]func(context.Context, Call) (json.RawMessage, error){}, gone: map[string]bool{}}
	h.on("read-long", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	return h
}

// TestEndingsProcess is the process of the quarantine tests; otherwise it does nothing.
func TestEndingsProcess(t *testing.T) {
	text := os.Getenv(endingsEnv)
	if text == "" {
		t.Skip("a part of TestQuarantine")
	}
	var e endingConfig
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	db := storagetest.OpenAt(t, e.Path, &storagetest.Root{Key: make([]byte, storage.RootKeySize)})
	ctx := storagetest.Ctx(t, db)
	begun := make(chan struct{}, 4)
	s := New(db, Options{Callables: offering(lasting(begun))})
	defer s.Close()
	bomb := e.Die && e.Begin != "execute" && e.Answer == ""
	if bomb {
		s.evaluating = func(uuid.UUID) { die() }
	}
	run, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(run) }()
	defer func() {
		stop()
		<-ended
	}()
	switch e.Begin {
	case "execute":
		if _, err := s.ExecuteComposite(ctx, ExecuteParams{Skill: json.RawMessage(lastingSkill), Async: true}); err != nil {
			t.Fatal(err)
		}
	case "enqueue":
		var id uuid.UUID
		err := db.Write(ctx, func(tx *storage.Tx) (err error) {
			id, err = s.EnqueueTx(tx, Enqueue{Skill: json.RawMessage(lastingSkill), Trigger: "schedule"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Begin(id)
	}
	if bomb {
		select {} // until the evaluation ends the process
	}
	list, err := s.History(ctx, HistoryParams{})
	if err != nil || len(list.Executions) != 1 {
		t.Fatal(list, err)
	}
	id := list.Executions[0].ExecutionID
	if e.Answer != "" {
		awaitCounted(t, s)
		checkQuarantined(t, s, ctx, id)
		switch e.Answer {
		case "cancel":
			if r, err := s.Cancel(ctx, CancelParams{ExecutionID: id}); err != nil || r.Status != machine.Cancelled {
				t.Fatal(r, err)
			}
		default:
			if _, err := s.Answer(ctx, AnswerParams{ExecutionID: id, Decision: e.Answer}); err != nil {
				t.Fatal(err)
			}
		}
		if e.Answer != machine.TryAgain {
			x, err := s.GetExecution(ctx, RunParams{ExecutionID: id})
			want := map[string]Status{"cancel": machine.Cancelled, machine.GiveUp: machine.Failed}[e.Answer]
			if err != nil || x.Status != want || len(x.StepResults) != 2 || x.StepResults[0].Status != machine.Completed {
				t.Fatalf("%+v %v", x, err)
			}
			return
		}
	}
	<-begun // the call is in progress
	if e.Die {
		die()
	}
}

func awaitCounted(t *testing.T, s *Service) {
	t.Helper()
	testkit.Eventually(t, "whether the interrupted runs are counted", s.counted.Load, func(counted bool) bool { return counted })
}

func checkQuarantined(t *testing.T, s *Service, ctx context.Context, id uuid.UUID) {
	t.Helper()
	list, err := s.History(ctx, HistoryParams{Status: machine.Waiting})
	if err != nil || len(list.Executions) != 1 {
		t.Fatalf("history: %+v %v", list, err)
	}
	x, err := s.GetExecution(ctx, RunParams{ExecutionID: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []Execution{list.Executions[0], x} {
		if x.Status != machine.Waiting || x.WaitReason != WaitQuarantined || len(x.Waits) != 1 || x.Waits[0].Request.Message != quarantineMessage {
			t.Fatalf("%+v", x)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[id] != nil {
		t.Fatal("it was resumed")
	}
}

// TestQuarantine ends processes with an active run: after two unexpected ends in a row without
// progress the run is not resumed automatically, and not before.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	if os.Getenv(endingsEnv) != "" || os.Getenv(crashEnv) != "" {
		t.Skip("a process of the test")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a killed process cannot be told from a failed one here")
	}
	die, resumed := endingConfig{Die: true}, endingConfig{}
	for name, list := range map[string][]endingConfig{
		"call, canceled": {{Begin: "execute", Die: true}, die, {Answer: "cancel"}},
		"call, given up": {{Begin: "execute", Die: true}, die, {Answer: machine.GiveUp}},
		// After a person resumed it, it may end the process once more, and is then quarantined again.
		"call, resumed": {{Begin: "execute", Die: true}, die, {Answer: machine.TryAgain, Die: true}, {Answer: machine.TryAgain}},
		// The run of a schedule whose first evaluation ends the process.
		"first evaluation": {{Begin: "enqueue", Die: true}, die, {Answer: machine.TryAgain}},
		// An orderly shutdown between two unexpected ends resets the count.
		"stop in order": {{Begin: "execute", Die: true}, resumed, {Die: true}, resumed, {Die: true}, resumed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "helix.db")
			storagetest.Blank(t, path)
			for i, e := range list {
				e.Path = path
				text, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				cmd := exec.Command(os.Args[0], "-test.run=^TestEndingsProcess$", "-test.timeout=10m")
				cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), endingsEnv+"="+string(text)), &out, &out
				err = cmd.Run()
				if killed := cmd.ProcessState.ExitCode() == -1; err != nil && !killed || killed != e.Die || strings.Contains(out.String(), "FAIL") {
					t.Fatalf("process %d, %+v: %v\n%s", i, e, err, &out)
				}
			}
		})
	}
}

func TestProgressEndsSuspicion(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	begun := make(chan struct{}, 4)
	b.h.does = lasting(begun).does
	id := b.async(json.RawMessage(lastingSkill), `{}`)
	<-begun
	err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO composite_skill_interruptions (execution_id, times) VALUES (?, 0)`, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.s.Close() // without Run, so that nothing is recorded
	b.h.on("read-long", func(context.Context, Call) (json.RawMessage, error) { return json.RawMessage(`1`), nil })
	b.s = b.service()
	b.start(b.s)
	b.until(id, is(machine.Completed))
	if n := b.count("composite_skill_interruptions"); n != 0 {
		t.Fatalf("%d runs are still suspects", n)
	}
}
