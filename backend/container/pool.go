package container

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Limits of the pool.
const (
	poolSize = 2
	poolLife = 10 * time.Minute // since the last run of the same tool
)

// prepared is a container that was created for a later run of the same tool. It has not started.
type prepared struct {
	b     *box
	key   string
	until time.Time
}

// key identifies containers that differ only in whose run they are.
func (b *box) key() string {
	body := b.body
	body.Labels, body.Entrypoint, body.Cmd, body.HostConfig.Mounts = nil, nil, nil, b.extra()
	text, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	return string(text)
}

// adopt takes over a prepared container, if there is one.
func (b *box) adopt() bool {
	e, key := b.e, b.key()
	e.mu.Lock()
	i := slices.IndexFunc(e.pool, func(p *prepared) bool { return p.key == key && p.b.c.socket == b.c.socket })
	if i < 0 {
		e.mu.Unlock()
		return false
	}
	p := e.pool[i].b
	e.pool = slices.Delete(e.pool, i, i+1)
	e.mu.Unlock()
	b.run, b.body, b.id, b.dir, b.socket, b.accepts = p.run, p.body, p.id, p.dir, p.socket, p.accepts
	b.exits, b.hello, b.closed, b.said = p.exits, p.hello, p.closed, p.said
	return true
}

// another creates a container like that of a run that has ended, for the next run of the same tool. It does so in
// the background, and only while Run keeps the pool.
func (b *box) another() {
	e := b.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pooling == nil {
		return
	}
	ctx, key := e.pooling, b.key()
	if i := slices.IndexFunc(e.pool, func(p *prepared) bool { return p.key == key }); i >= 0 || key == "" || e.preparing[key] {
		return
	}
	next := &box{e: e, c: b.c, run: uuid.New(), body: b.body, live: &Running{}}
	next.body.HostConfig.Mounts = b.extra()
	next.body.Labels = maps.Clone(b.body.Labels)
	next.body.Labels[labelDeadline] = strconv.FormatInt(time.Now().Add(poolLife+maxWall+apiTime).Unix(), 10)
	e.preparing[key] = true
	e.background.Go(func() { e.prepare(ctx, next, key) })
}

// prepare creates a container and puts it into the pool, whose oldest one makes room.
func (e *Engine) prepare(ctx context.Context, b *box, key string) {
	err := b.create(ctx)
	e.mu.Lock()
	delete(e.preparing, key)
	var surplus []*prepared
	if err != nil || e.pooling == nil {
		surplus = []*prepared{{b: b}}
	} else {
		e.pool = append(e.pool, &prepared{b, key, time.Now().Add(poolLife)})
		if n := len(e.pool) - poolSize; n > 0 {
			surplus, e.pool = slices.Clone(e.pool[:n]), slices.Delete(e.pool, 0, n)
		}
	}
	e.mu.Unlock()
	for _, p := range surplus {
		p.b.remove()
	}
	if err != nil && ctx.Err() == nil {
		e.log.Warn("prepare a container", "err", err) // the next run creates its own
	}
}

// drain removes the prepared containers for which drop is true.
func (e *Engine) drain(drop func(*prepared) bool) {
	e.mu.Lock()
	var out []*prepared
	e.pool = slices.DeleteFunc(e.pool, func(p *prepared) bool {
		if !drop(p) {
			return false
		}
		out = append(out, p)
		return true
	})
	e.mu.Unlock()
	for _, p := range out {
		p.b.remove()
	}
}

func all(*prepared) bool { return true }

// expired reports whether the tool has not run for long.
func expired(p *prepared) bool { return time.Now().After(p.until) }

// keepPool lets containers be prepared until stop is called, which removes them.
func (e *Engine) keepPool(ctx context.Context) (stop func()) {
	e.mu.Lock()
	e.pooling = ctx
	e.mu.Unlock()
	return func() {
		e.mu.Lock()
		e.pooling = nil
		e.mu.Unlock()
		e.background.Wait()
		e.drain(all)
	}
}

// hold marks a container as one of this process, so that it is not reaped.
func (e *Engine) hold(run uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[run] = true
}

func (e *Engine) release(run uuid.UUID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, run)
}
