package worker

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func program(t testing.TB) string {
	t.Helper()
	p, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func starter(t testing.TB) *Starter {
	s := NewStarter()
	t.Cleanup(s.Close)
	return s
}

func TestChildTalks(t *testing.T) {
	t.Parallel()
	p, err := starter(t).Start(context.Background(), StartOptions{Command: []string{program(t), "act-echo"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"a", strings.Repeat("b", 1000)} {
		if err := p.In.Write(ToChild{Hello: &Hello{Kind: kind}}); err != nil {
			t.Fatal(err)
		}
		f, body, err := p.Out.ReadFromChild()
		if err != nil || f.Log == nil || string(body) != kind {
			t.Fatalf("got %+v %q %v", f, body, err)
		}
	}
	select {
	case <-p.Ended():
		t.Fatal("the child has ended")
	default:
	}
	p.Release(0)
	p.Release(0)
	if p.CPU() <= 0 {
		t.Error("no processor time")
	}
}

func TestChildThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p, err := starter(t).Start(context.Background(), StartOptions{Command: []string{program(t), "act-silent"}})
	if err != nil {
		t.Fatal(err)
	}
	p.Release(10 * time.Millisecond)
	if s := p.Said(); !strings.Contains(s, "kill") {
		t.Errorf("the child ended as %q", s)
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	s := starter(t)
	for _, c := range [][]string{nil, {"/nonexistent/helix", Argument}} {
		if p, err := s.Start(context.Background(), StartOptions{Command: c}); err == nil {
			p.Release(0)
			t.Errorf("%q could be started", c)
		}
	}
}
