package skills

import (
	"strings"

	"github.com/google/uuid"

	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// maxGroup limits the events of one transaction, so that the first run in a group does not wait for long.
const maxGroup = 64

// insertEvents appends events to the journal of a run.
func insertEvents(tx *storage.Tx, run uuid.UUID, events []machine.Event) error {
	const width = 8
	for len(events) > 0 {
		n := min(len(events), maxGroup)
		args := make([]any, 0, n*width)
		for _, e := range events[:n] {
			args = append(args, run, e.Seq, string(e.Type), e.StepPath, e.Iteration, e.Attempt, e.Data, e.At)
		}
		_, err := tx.Exec(`INSERT INTO composite_skill_events (execution_id, seq, type, step_path, iteration, attempt, payload, at) VALUES `+
			strings.Repeat("(?,?,?,?,?,?,?,?),", n-1)+"(?,?,?,?,?,?,?,?)", args...)
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// loadEvents returns the events of a run after a sequence number, in order. limit 0 means all.
func loadEvents(tx *storage.Tx, run uuid.UUID, after int64, limit int) ([]machine.Event, error) {
	if limit <= 0 {
		limit = -1
	}
	var out []machine.Event
	err := tx.Select(`SELECT seq, type, step_path, iteration, attempt, payload, at FROM composite_skill_events
		WHERE execution_id = ? AND seq > ? ORDER BY seq LIMIT ?`, run, after, limit).Each(func(row storage.Row) error {
		var e machine.Event
		var typ, data string
		if err := row.Scan(&e.Seq, &typ, &e.StepPath, &e.Iteration, &e.Attempt, &data, storage.Time(&e.At)); err != nil {
			return err
		}
		e.Type, e.Data = machine.Type(typ), []byte(data)
		out = append(out, e)
		return nil
	})
	return out, err
}
