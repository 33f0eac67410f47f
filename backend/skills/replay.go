package skills

import (
	"context"
	"encoding/json"

	"helix/backend/fault"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// Replay applies a run's recorded outcomes to the engine again and compares its decisions with the
// recorded ones, byte for byte.
func (s *Service) Replay(ctx context.Context, p RunParams) (ReplayResult, error) {
	var row *runRow
	var prog *program
	var events []machine.Event
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if row, err = ownRun(tx, p.ExecutionID); err != nil {
			return err
		}
		if row.reason == WaitQuarantined {
			return errQuarantined()
		}
		if prog, err = s.program(tx, row); err != nil {
			return err
		}
		events, err = loadEvents(tx, row.id, 0, 0)
		return err
	})
	if err != nil {
		return ReplayResult{}, err
	}
	if len(events) == 0 {
		return ReplayResult{}, fault.NotFoundf("The run has not begun, or its journal is on another device.")
	}
	var made created
	if err := json.Unmarshal(events[0].Data, &made); err != nil {
		return ReplayResult{}, fault.Internalf(err, "The journal of the run cannot be read.")
	}
	_, diff, err := machine.Replay(made.start(s, row.id, events[0].At, row.input, prog), events)
	if err != nil {
		return ReplayResult{}, err
	}
	return ReplayResult{Identical: diff == nil, Events: int64(len(events)), FirstDifference: diff}, nil
}
