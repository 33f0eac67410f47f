package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/identity"
	"helix/backend/storage"
	"helixbench/figures"
)

// node runs a script of this folder and returns the list of milliseconds that it prints.
func node(stdin any, script string, args ...string) (ms []float64) {
	in, err := json.Marshal(stdin)
	figures.Check(err)
	c := exec.Command("node", append([]string{"agent/" + script}, args...)...)
	c.Stdin, c.Stderr = bytes.NewReader(in), os.Stderr
	out, err := c.Output()
	figures.Check(err)
	figures.Check(json.Unmarshal(out, &ms))
	return ms
}

// loop measures a turn of ten steps with one tool call each, with every event stored, compared with
// the ai package, which stores nothing. Both call the same server.
func loop(file string, s *agent.Service, service *model, address string, begin func() uuid.UUID, say func(uuid.UUID)) {
	const steps = 10
	service.results.Store(steps - 1)
	defer service.results.Store(0)
	mine := quantile(timed(20, func(int) { say(begin()) }), 0.5) // each in a new chat, because the peer has no history either
	peer := quantile(node(nil, "loop.mjs", address, "20"), 0.5)
	figures.Print("loop.10", mine, "ms", mine/peer, "ai on Node")
	session := begin()
	turn := func(steps int) float64 {
		service.results.Store(int64(steps - 1))
		for range 10 { // the log may be restarted in between
			before, log := commits(file)
			say(session)
			if after, same := commits(file); same == log {
				return float64(after - before)
			}
		}
		figures.Check(errors.New("the write-ahead log began anew in each turn"))
		return 0
	}
	one := turn(1)
	figures.Print("commits", (turn(steps)-one)/(steps-1), "a step more", 0, "")
}

// commits returns the number of transactions in the write-ahead log of a database file, and an
// identifier of the log.
func commits(file string) (n int, log [8]byte) {
	b, err := os.ReadFile(file + "-wal")
	figures.Check(err)
	if len(b) < 32 {
		return 0, log
	}
	copy(log[:], b[16:24])
	frame := 24 + int(binary.BigEndian.Uint32(b[8:]))
	for at := 32; at+frame <= len(b) && bytes.Equal(b[at+8:at+16], log[:]); at += frame {
		if binary.BigEndian.Uint32(b[at+4:]) != 0 { // the frame that commits a transaction
			n++
		}
	}
	return n, log
}

// appends measures adding an input to a busy chat, compared with a transaction that inserts one row.
// An input writes two rows in one commit: the event, and the turn that lists find, which is in four
// indexes. A transaction that inserts the same two rows shows how much of the time that takes.
func appends(ctx context.Context, db *storage.DB, s *agent.Service, service *model, begin func() uuid.UUID) {
	const chats, inputs = 30, 30
	held := make(chan struct{})
	service.held.Store(&held)
	var mine, peer, alone []float64
	row := 0
	user := identity.UserID(ctx)
	insert := func(session uuid.UUID, turn bool) {
		figures.Check(db.Write(ctx, func(tx *storage.Tx) error {
			row++
			id := storage.NewID()
			if _, err := tx.Exec(`INSERT INTO conversation_events (session_id, sequence, type, turn_id, payload_json, schema_version, at) VALUES (?, ?, 'notice', ?, '{"text":"Is it so?"}', 1, ?)`, session, 1_000_000+row, id, tx.Now); err != nil || !turn {
				return err
			}
			_, err := tx.Exec(`INSERT INTO agent_turns (id, session_id, user_id, state, queue_mode, lane, created_at) VALUES (?, ?, ?, 'queued', 'followup', 'chat', ?)`, id, session, user, tx.Now)
			return err
		}))
	}
	for range chats {
		session := begin()
		send := func() {
			_, err := s.Send(ctx, agent.SendParams{SessionID: session, Text: "Is it so?"})
			figures.Check(err)
		}
		send()
		for range inputs {
			mine = append(mine, timed(1, func(int) { send() })...)
			peer = append(peer, timed(1, func(int) { insert(session, true) })...)
			alone = append(alone, timed(1, func(int) { insert(session, false) })...)
		}
		_, err := s.Cancel(ctx, agent.TurnParams{SessionID: session})
		figures.Check(err)
	}
	figures.Check(db.Write(ctx, func(tx *storage.Tx) error { // remove the peer's turns, which lists would show
		_, err := tx.Exec(`DELETE FROM agent_turns WHERE id IN (SELECT turn_id FROM conversation_events WHERE sequence > 1000000)`)
		return err
	}))
	service.held.Store(nil)
	close(held)
	m, p, one := quantile(mine, 0.5), quantile(peer, 0.5), quantile(alone, 0.5)
	figures.Print("event_append", m*1000, "us", m/one, "INSERT of one row")
	figures.Print("event_append.rows", m*1000, "us", m/p, "INSERT of the same two rows")
}

// planning measures building the next request from a chat of 10,000 events, including the figures
// displayed for it, compared with trimming as many messages.
func planning(ctx context.Context, s *agent.Service, open func() *agent.Service, session uuid.UUID) {
	plan := func(of *agent.Service) agent.ContextResult {
		r, err := of.Context(ctx, agent.SessionParams{SessionID: session})
		figures.Check(err)
		return r
	}
	r := plan(s)
	mine := quantile(timed(50, func(int) { plan(s) }), 0.5)
	messages := 0
	for _, p := range r.Parts {
		if p.Kind == "history" {
			messages += 2
		}
	}
	if messages == 0 {
		figures.Check(errors.New("the next request has no history"))
	}
	list := make([]string, messages)
	for i := range list {
		list[i] = [2]string{"Is it so?", "Yes."}[i%2]
	}
	peer := quantile(node(list, "trim.mjs", fmt.Sprint(r.Window)), 0.5)
	figures.Print("plan.10k", mine, "ms", mine/peer, "trimMessages of langchain")
	figures.Print("plan.10k.warm", mine, "ms", 0, "")
	figures.Print("plan.10k.first", quantile(timed(5, func(int) {
		other := open()
		plan(other)
		figures.Check(other.Close())
	}), 0.5), "ms", 0, "")
}
