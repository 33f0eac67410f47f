package psychology

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/storage"
)

// racingMemory is a memory with a hook between reading and writing a batch.
type racingMemory struct {
	Memory
	do func(*storage.Tx)
}

func (m *racingMemory) RetainTx(ctx context.Context, tx *storage.Tx, list []memory.Retained) (int, error) {
	m.do(tx)
	return m.Memory.RetainTx(ctx, tx, list)
}

func TestEditDuringARunWins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	edited, other := f.old(f.ctx, 720, "medium", 0), f.old(f.ctx, 720, "medium", 0)
	f.memory = &racingMemory{f.mem, func(tx *storage.Tx) {
		if _, err := tx.Exec(`UPDATE memories SET initial_strength = 0.6, version = version + 1 WHERE id = ?`, edited); err != nil {
			t.Error(err)
		}
	}}
	f.run(RunParams{})
	if r, _ := f.row(edited); r != nil {
		t.Errorf("the retention %v of before the edit was stored", *r)
	}
	if r, _ := f.row(other); r == nil || *r < 0.49 || *r > 0.51 {
		t.Errorf("the other memory has %v", r)
	}
	f.memory = f.mem
	f.run(RunParams{})
	if r, _ := f.row(edited); r == nil || *r < 0.29 || *r > 0.31 {
		t.Errorf("after the next run the edited memory has %v", r)
	}
}

func TestOneRunOfAUserAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.old(f.ctx, 720, "medium", 0)
	ran := 0
	f.memory = &racingMemory{f.mem, func(*storage.Tx) {
		ran++
		if _, err := f.DecayRun(f.ctx, RunParams{}); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second run: %v", err)
		}
		if _, err := f.DecayRun(f.ctx, RunParams{DryRun: true}); !fault.Is(err, fault.Conflict) {
			t.Errorf("a dry run: %v", err)
		}
	}}
	f.run(RunParams{})
	if ran != 1 {
		t.Errorf("%d batches", ran)
	}
	f.memory = f.mem
	if r := f.run(RunParams{}); r.RunID == uuid.Nil {
		t.Error("the first run left its lock behind")
	}
}
