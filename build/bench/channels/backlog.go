package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"helix/backend/channels"
	"helix/backend/channels/channelstest"
	"helix/backend/storage/storagetest"
	"helixbench/figures"
)

// counted is an agent that tells of each input.
type counted struct {
	*channelstest.Agent
	submitted chan struct{}
}

func (a counted) Submit(ctx context.Context, session uuid.UUID, in channels.Input) error {
	err := a.Agent.Submit(ctx, session, in)
	if err == nil {
		a.submitted <- struct{}{}
	}
	return err
}

// backlog measures how long messages that were accepted before a restart take to reach the agent. The
// time includes opening the database.
func backlog(n int) {
	tg := channelstest.NewTelegram()
	defer tg.Close()
	dir, remove := temporary()
	defer remove()
	path, root := filepath.Join(dir, "helix.db"), storagetest.NewRoot()
	busy := &channelstest.Agent{}
	busy.Full(true)
	s := open(path, root, busy)
	s.add("telegram", tg.URL)
	for i := range n {
		tg.Say(int64(i%senders+1), fmt.Sprintf("%06d", i))
	}
	for s.count(`SELECT count(*) FROM channel_inbox WHERE state = 'received'`) < n {
		time.Sleep(10 * time.Millisecond)
	}
	s.close()

	agent := counted{&channelstest.Agent{}, make(chan struct{}, 2*n)}
	began := time.Now()
	s = open(path, root, agent)
	for range n {
		<-agent.submitted
	}
	submitted := time.Since(began).Seconds()
	for range n {
		<-tg.Sent()
	}
	answered := time.Since(began).Seconds()
	s.close()
	disordered, last := 0, map[uuid.UUID]string{}
	for _, in := range agent.Inputs() {
		if in.Text <= last[in.Session] {
			disordered++
		}
		last[in.Session] = in.Text
	}
	figures.Print(fmt.Sprintf("backlog.%d.submitted", n), submitted, "s", 0, "")
	figures.Print(fmt.Sprintf("backlog.%d.answered", n), answered, "s", 0, "")
	figures.Print("backlog.disordered", float64(disordered), "inputs", 0, "")
}
