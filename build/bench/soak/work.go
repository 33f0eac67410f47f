package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend"
	"helix/backend/gateway"
)

// work is everything that clients do with the Helix.
type work struct {
	other  *backend.Other
	dir    string
	tool   string
	skill  string
	cancel context.CancelFunc
	group  sync.WaitGroup
	kinds  []*kind
}

// kind is one kind of work, done again and again.
type kind struct {
	name         string
	pause        time.Duration
	once         func(ctx context.Context, c *gateway.Client, i int) error
	done, failed atomic.Int64
	last         atomic.Value // error text
}

func startWork(dir string) (*work, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &work{dir: filepath.Join(dir, "exports"), cancel: cancel}
	err := os.MkdirAll(w.dir, 0o700)
	if err == nil {
		w.other, err = backend.Running(ctx, backend.Options{DataDir: dir, Keyring: noKeyring{}})
	}
	if err == nil && w.other == nil {
		err = errors.New("the started Helix has no endpoint")
	}
	if err == nil {
		err = w.prepare(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	w.kinds = []*kind{
		{name: "runs of a tool", pause: time.Second, once: w.runTool},
		{name: "runs of a skill", pause: 5 * time.Second, once: w.runSkill},
		{name: "imports", pause: 10 * time.Second, once: w.importFile},
		{name: "recordings", pause: 5 * time.Second, once: w.record},
		{name: "connections", pause: 500 * time.Millisecond, once: w.connect},
	}
	for _, k := range w.kinds {
		w.group.Go(func() { w.repeat(ctx, k) })
	}
	return w, nil
}

func (w *work) dial(ctx context.Context) (*gateway.Client, error) {
	return gateway.Dial(ctx, w.other.ClientOptions("soak"))
}

// prepare makes a tool, a skill that calls it, and schedules of both.
func (w *work) prepare(ctx context.Context) error {
	c, err := w.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var tool struct{ Tool struct{ ID string } }
	if err := c.Call(ctx, "tools.create", map[string]any{"name": "Double", "code": "export default (p) => ({ twice: (p.n ?? 1) * 2 })"}, &tool); err != nil {
		return err
	}
	w.tool = tool.Tool.ID
	var skill struct{ SkillID string }
	step := map[string]any{"stepId": "s", "toolType": "transform", "value": 42}
	if err := c.Call(ctx, "skills.create_composite", map[string]any{"skill": map[string]any{"name": "Answer", "steps": []any{step}}}, &skill); err != nil {
		return err
	}
	w.skill = skill.SkillID
	for i, target := range []map[string]any{{"kind": "tool", "id": w.tool}, {"kind": "skill", "id": w.skill}} {
		cadence := map[string]any{"type": "interval", "everySecs": 60}
		if err := c.Call(ctx, "schedules.create", map[string]any{"name": fmt.Sprint("Each minute ", i), "target": target, "cadence": cadence}, nil); err != nil {
			return err
		}
	}
	return nil
}

// repeat does one kind of work with a client of its own until ctx ends.
func (w *work) repeat(ctx context.Context, k *kind) {
	c, err := w.dial(ctx)
	if err != nil {
		k.last.Store(err.Error())
		return
	}
	defer c.Close()
	for i := 0; ; i++ {
		if err := k.once(ctx, c, i); err == nil {
			k.done.Add(1)
		} else if ctx.Err() == nil {
			k.failed.Add(1)
			k.last.Store(err.Error())
		}
		if !sleep(ctx, k.pause) {
			return
		}
	}
}

// sleep reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *work) runTool(ctx context.Context, c *gateway.Client, i int) error {
	return c.Call(ctx, "tools.execute_custom", map[string]any{"toolId": w.tool, "params": map[string]any{"n": i}}, nil)
}

func (w *work) runSkill(ctx context.Context, c *gateway.Client, _ int) error {
	return c.Call(ctx, "skills.execute_composite", map[string]any{"skillId": w.skill}, nil)
}

// importFile imports ten notes. After ten different files they begin again, so that Helix reads them
// but the data does not grow.
func (w *work) importFile(ctx context.Context, c *gateway.Client, i int) error {
	file := filepath.Join(w.dir, fmt.Sprintf("notes-%d.jsonl", i%10))
	var b strings.Builder
	for n := range 10 {
		fmt.Fprintf(&b, `{"id":"%d-%d","text":"Note %d of file %d is about the garden, the weather and what to cook."}`+"\n", i%10, n, n, i%10)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return c.Call(ctx, "memory.import", map[string]any{"path": file, "format": "jsonl"}, nil)
}

// record makes a recording of two seconds and deletes it.
func (w *work) record(ctx context.Context, c *gateway.Client, _ int) error {
	if err := c.Call(ctx, "voice.start", map[string]any{"mode": "memo"}, nil); err != nil {
		return err
	}
	sleep(ctx, 2*time.Second)
	stop := context.WithoutCancel(ctx) // a recording must not go on
	var made struct{ MemoID string }
	if err := c.Call(stop, "voice.stop", struct{}{}, &made); err != nil {
		return err
	}
	return c.Call(stop, "voice.delete_memo", map[string]any{"memoId": made.MemoID}, nil)
}

// connect is a client that comes, reads and goes, as a page that is reloaded does.
func (w *work) connect(ctx context.Context, _ *gateway.Client, _ int) error {
	c, err := w.dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.Call(ctx, "tools.list", map[string]any{"limit": 5}, nil), c.Close())
}

func (w *work) counts() (done, failed int64) {
	for _, k := range w.kinds {
		done, failed = done+k.done.Load(), failed+k.failed.Load()
	}
	return done, failed
}

// stop ends the work and prints what was done. It returns an error if a kind of work never succeeded.
func (w *work) stop() (err error) {
	w.cancel()
	w.group.Wait()
	for _, k := range w.kinds {
		done, failed := k.done.Load(), k.failed.Load()
		fmt.Printf("%s: %d, failed %d\n", k.name, done, failed)
		if why, ok := k.last.Load().(string); ok {
			fmt.Printf("  the last error: %s\n", why)
		}
		if done == 0 {
			err = errors.Join(err, fmt.Errorf("%s never succeeded", k.name))
		}
	}
	return err
}
