package synthesis

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// fixture is a service on a database, with the context of another user.
type fixture struct {
	*Service
	db   *storage.DB
	mem  *memory.Service
	ctx  context.Context
	them context.Context
}

func newFixture(t testing.TB, o Options) *fixture {
	t.Helper()
	db := storagetest.Open(t)
	mem := memory.New(db, memory.Options{})
	s := New(db, mem, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{s, db, mem, storagetest.Ctx(t, db), storagetest.OtherUser(t, db)}
}

var monday = time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)

// remember stores texts, one each every, starting on monday.
func (f *fixture) remember(t testing.TB, every time.Duration, texts ...string) (ids []string) {
	t.Helper()
	for i, text := range texts {
		at := monday.Add(time.Duration(i) * every)
		r, err := f.mem.Add(f.ctx, memory.AddParams{Content: text, OccurredAt: &at})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.Item.ID.String())
	}
	return ids
}

func ptr[T any](v T) *T { return &v }

// run runs a synthesis to its end.
func (f *fixture) run(t testing.TB, p SynthesizeParams) SynthesizeResult {
	t.Helper()
	if p.SynthesisType == "" {
		p.SynthesisType = Full
	}
	r := f.ended(t, f.ctx, p)
	if r.Analysis == nil {
		j, _ := f.Status(f.ctx, JobParams{r.JobID})
		t.Fatalf("the job is %s: %s", r.Status, j.Error)
	}
	return r
}

// ended runs a synthesis and returns how it ended, which may take longer than a caller can wait.
func (f *fixture) ended(t testing.TB, ctx context.Context, p SynthesizeParams) SynthesizeResult {
	t.Helper()
	w, err := f.enqueue(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	<-w.done
	return w.result
}

func (f *fixture) rows(t testing.TB, table string) (n int) {
	t.Helper()
	if err := f.db.Read(f.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func ofType(list []Pattern, typ string) (out []Pattern) {
	for _, p := range list {
		if p.Type == typ {
			out = append(out, p)
		}
	}
	return out
}

// made returns texts for the engine alone.
func made(every time.Duration, bodies ...string) (out []Text) {
	for i, b := range bodies {
		out = append(out, Text{ID: fmt.Sprintf("t%03d", i), Kind: "memory", Body: b, At: monday.Add(time.Duration(i) * every), Salience: 0.5})
	}
	return out
}

func analyze(t testing.TB, in Input) Analysis {
	t.Helper()
	if in.Type == "" {
		in.Type = Full
	}
	a, err := Local{}.Analyze(context.Background(), in, func(string, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
