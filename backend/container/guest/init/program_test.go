//go:build linux

package main

import (
	"net"
	"testing"

	"helix/backend/container/guest"
)

func TestKillBeforeTheProgramIsStarted(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	i := &initProcess{conn: guest.NewConn(ours), programs: map[uint32]*program{}, byPID: map[int]*program{}}
	i.children.L = &i.mu
	defer ours.Close()
	go i.reap()
	p := &program{id: 1, start: &guest.Start{Argv: []string{"/bin/true"}}, done: make(chan struct{})}
	i.programs[p.id] = p
	if err := i.handle(&guest.Message{Type: guest.TypeKill, ID: p.id}); err != nil {
		t.Fatal(err)
	}
	var streams [3]*guest.Stream
	for n, id := range []uint32{guest.Stdin(1), guest.Stdout(1), guest.Stderr(1)} {
		s, err := i.conn.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		streams[n] = s
	}
	if exit := i.execute(p, streams[0], streams[1], streams[2]); exit.Ended != guest.EndedByKill || exit.Code != 137 {
		t.Errorf("%+v", exit)
	}
	if p.pid != 0 {
		t.Errorf("process %d was started", p.pid)
	}
}
