package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"helix/backend/storage"
)

func chain(n int, tool string) json.RawMessage {
	steps := make([]string, n)
	for i := range steps {
		more := `"parameters":{"x":1}`
		if i > 0 {
			more = fmt.Sprintf(`"inputMapping":{"x":"$.s%d.x"}`, i-1)
		}
		steps[i] = step(fmt.Sprintf("s%d", i), tool, more)
	}
	return skillText(steps...)
}

func BenchmarkRunChain(b *testing.B) {
	for _, n := range []int{1, 50, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := newFixture(b)
			skill := chain(n, "ok")
			x.run(skill, `{}`)
			before := x.s.writes.Commits()
			for b.Loop() {
				x.run(skill, `{}`)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/step")
			b.ReportMetric(float64(x.s.writes.Commits()-before)/float64(b.N*n), "commits/step")
		})
	}
}

func BenchmarkRunTransforms(b *testing.B) {
	x := newFixture(b)
	skill := skillText(`{"stepId":"a","toolType":"transform","value":"$.input.x"}`, `{"stepId":"b","toolType":"transform","value":{"y":"$.a"}}`,
		`{"stepId":"c","toolType":"transform","value":{"z":"$.b.y"}}`)
	m := x.save(strings.Replace(string(skill), `"s"`, `"bench"`, 1))
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if out, err := x.s.ExecuteComposite(x.ctx, ExecuteParams{SkillID: &m.SkillID, Input: json.RawMessage(`{"x":1}`)}); err != nil || !out.Success {
				b.Error(out, err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

func BenchmarkRunMap(b *testing.B) {
	list, _ := json.Marshal(make([]int, 1000))
	for _, parallel := range []int{1, 8} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			x := newFixture(b)
			x.h.on("ten", func(context.Context, Call) (json.RawMessage, error) {
				time.Sleep(10 * time.Millisecond)
				return json.RawMessage(`1`), nil
			})
			skill := json.RawMessage(fmt.Sprintf(`{"name":"s","steps":[{"stepId":"m","toolType":"map","items":"$.input","concurrency":%d,"steps":[%s]}]}`, parallel, step("e", "ten", "")))
			for b.Loop() {
				if out := x.run(skill, string(list)); !out.Success {
					b.Fatal(out.Error)
				}
			}
		})
	}
}

func BenchmarkHistory(b *testing.B) {
	x := newFixture(b)
	id := x.run(skillText(step("a", "ok", "")), `{}`).ExecutionID
	err := x.db.Write(x.ctx, func(tx *storage.Tx) error {
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
				INSERT INTO composite_skill_executions (id, user_id, definition_hash, body, mode, trigger, input_params, final_output, status, device_id, bytes, created_at, updated_at)
				SELECT randomblob(16), user_id, definition_hash, body, mode, trigger, input_params, final_output, status, device_id, bytes, created_at - i * 1000000, updated_at
				FROM composite_skill_executions, n WHERE composite_skill_executions.id = ?`, id)
			return err
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	cursor := ""
	for b.Loop() {
		page, err := x.s.History(x.ctx, HistoryParams{Cursor: cursor})
		if err != nil || len(page.Executions) == 0 {
			b.Fatal(len(page.Executions), err)
		}
		cursor = page.NextCursor
	}
}
