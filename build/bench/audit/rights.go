package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
	"helixbench/figures"
)

const (
	grantSubjects = 200
	grantsEach    = 50 // 10,000 grants in all
)

// domain provides the subjects of the measurements.
type domain struct {
	infos map[string]permission.SubjectInfo
	steps []permission.Step
}

func (d *domain) Subject(_ context.Context, _, id string) (permission.SubjectInfo, error) {
	i, ok := d.infos[id]
	if !ok {
		return i, fault.NotFoundf("Tool not found.")
	}
	return i, nil
}

// flows is a domain whose subjects have steps.
type flows struct{ *domain }

func (f flows) Steps(context.Context, string, string, json.RawMessage) ([]permission.Step, error) {
	return f.steps, nil
}

func hostOf(subject, i int) string { return fmt.Sprintf("h%d.s%d.example.com", i, subject) }

// gate creates 200 tools with 50 grants each.
func (b *bench) gate() (*permission.Service, *domain, []permission.Subject) {
	s := permission.New(b.db, b.db.Bus(), permission.Options{Audit: b.log})
	d := &domain{infos: map[string]permission.SubjectInfo{}}
	s.Register("tool", d, nil)
	s.Register("skill", flows{d}, nil)
	var subs []permission.Subject
	check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
		for i := range grantSubjects {
			id := fmt.Sprint("tool-", i)
			sub := permission.Subject{Kind: "tool", ID: id, DefinitionHash: [32]byte{byte(i), 1}}
			info := permission.SubjectInfo{Name: id, State: permission.Active, DefinitionHash: sub.DefinitionHash, Definition: json.RawMessage(`{}`), Approved: true}
			for k := range grantsEach {
				info.Declared = append(info.Declared, permission.Want{Capability: permission.NetworkHTTPS, Resource: hostOf(i, k)})
				if _, err := tx.Exec(`INSERT INTO capability_grants (id, user_id, device_id, subject_kind, subject_id, definition_hash, capability, resource, scope, origin, created_at) VALUES (?, ?, ?, 'tool', ?, ?, 'network:https', ?, 'always', 'user', ?)`,
					storage.NewID(), b.user, b.db.Device().ID, id, sub.DefinitionHash, hostOf(i, k), tx.Now); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(`INSERT INTO definitions (id, user_id, subject_kind, subject_id, hash, document, first_seen, approved_at) VALUES (?, ?, 'tool', ?, ?, '{}', ?, ?)`,
				storage.NewID(), b.user, id, sub.DefinitionHash, tx.Now, tx.Now); err != nil {
				return err
			}
			d.infos[id] = info
			subs = append(subs, sub)
		}
		return nil
	}))
	return s, d, subs
}

// decide measures a decision that is cached, one that is not, and one for which the grants
// must be read from the database; then casbin with the same 10,000 rules.
func (b *bench) decide() {
	s, _, subs := b.gate()
	req := func(i int, run uuid.UUID) permission.Request {
		k := i % grantSubjects
		return permission.Request{Subject: subs[k], Cap: permission.NetworkHTTPS, Resource: hostOf(k, i/grantSubjects%grantsEach), Tier: permission.SideEffecting, RunID: run}
	}
	ask := func(r permission.Request) {
		if d, err := s.Decide(b.ctx, r); err != nil || d.Effect != permission.Allow {
			panic(fmt.Sprintf("%+v %v", d, err))
		}
	}
	var cold []float64
	for i := range grantSubjects { // the first decision of each subject reads its grants
		r := req(i, uuid.UUID{1})
		at := time.Now()
		ask(r)
		cold = append(cold, micros(at))
	}
	var fresh []float64
	for i := range 20000 { // a new run, for which nothing is cached
		r := req(i*7, uuid.New())
		at := time.Now()
		ask(r)
		fresh = append(fresh, micros(at))
	}
	r := req(3, uuid.UUID{2})
	ask(r)
	const n = 2_000_000
	at := time.Now()
	for range n {
		ask(r)
	}
	cached := micros(at) / n
	figures.Print("decide.cached", cached, "µs", 0, "")
	figures.Print("decide.uncached", median(fresh), "µs median", 0, "")
	figures.Print("decide.uncached.grants_from_disk", median(cold), "µs median", 0, "")
	if peer := casbin(); peer > 0 {
		figures.Print("decide.per_second.cached", 1e6/cached, "1/s", 1e6/cached/peer, "casbin 5.51.1")
		figures.Print("decide.per_second.uncached", 1e6/median(fresh), "1/s", 1e6/median(fresh)/peer, "casbin 5.51.1")
	}
}

// casbin returns how many decisions per second the peer makes, 0 if it is not installed.
func casbin() float64 {
	cmd := exec.Command("node", filepath.Join("audit", "casbin.mjs"), fmt.Sprint(grantSubjects), fmt.Sprint(grantsEach))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "casbin:", err)
		return 0
	}
	var n float64
	if _, err := fmt.Sscan(string(bytes.TrimSpace(out)), &n); err != nil {
		fmt.Fprintln(os.Stderr, "casbin:", err)
	}
	return n
}

// preview measures a skill of 100 steps over 100 tools.
func (b *bench) preview() {
	s, d, subs := b.gate2()
	skill := permission.SubjectInfo{Name: "flow", State: permission.Active, DefinitionHash: [32]byte{9, 9}, Approved: true}
	for i := range 100 {
		st := permission.Step{ID: fmt.Sprint("step-", i), Subject: subs[i], Tier: permission.SideEffecting}
		for k := range 3 {
			w := permission.Want{Capability: permission.NetworkHTTPS, Resource: hostOf(i, k)}
			st.Wants = append(st.Wants, w)
			skill.Declared = append(skill.Declared, w)
		}
		d.steps = append(d.steps, st)
	}
	d.infos["flow"] = skill
	var times []float64
	for range 30 {
		at := time.Now()
		p, err := s.Preview(b.ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: "skill", ID: "flow"}})
		check(err)
		if len(p.Steps) != 100 || len(p.WillAsk) != 0 {
			panic(fmt.Sprintf("%d steps, %d to ask", len(p.Steps), len(p.WillAsk)))
		}
		times = append(times, micros(at)/1000)
	}
	figures.Print("preview.100_steps.first", times[0], "ms", 0, "")
	figures.Print("preview.100_steps", quantile(times[1:], 0.95), "ms p95", 0, "")
}

// gate2 is gate with existing rows and nothing cached.
func (b *bench) gate2() (*permission.Service, *domain, []permission.Subject) {
	var n int
	check(b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM capability_grants`).Scan(&n)
	}))
	if n == 0 {
		b.gate()
	}
	s := permission.New(b.db, b.db.Bus(), permission.Options{Audit: b.log})
	d := &domain{infos: map[string]permission.SubjectInfo{}}
	s.Register("tool", d, nil)
	s.Register("skill", flows{d}, nil)
	var subs []permission.Subject
	for i := range grantSubjects {
		sub := permission.Subject{Kind: "tool", ID: fmt.Sprint("tool-", i), DefinitionHash: [32]byte{byte(i), 1}}
		d.infos[sub.ID] = permission.SubjectInfo{Name: sub.ID, State: permission.Active, DefinitionHash: sub.DefinitionHash, Approved: true}
		subs = append(subs, sub)
	}
	return s, d, subs
}
